"""What the project itself stores."""

from django.db import models


class Order(models.Model):
    item = models.TextField()
    receipt = models.TextField(default="")
