"""The app of the project: its records are in the project's own database."""

import holdfast as hf
from holdfast.ext.django import database_url

app = hf.App(database_url(), worker=False)
