"""A Django project of one app: orders in its database, the shop's workflows beside them."""
