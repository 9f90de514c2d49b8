"""People who sign in."""

from django.contrib.auth.models import AbstractUser


class User(AbstractUser):
    """Django's user, our own from the first migration on, so that it can grow fields."""
