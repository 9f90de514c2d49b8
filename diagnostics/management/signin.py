"""One-time sign-in links."""

from django.core.management.base import CommandError
from django.urls import reverse
from sesame.utils import get_query_string

from diagnostics.models import User

LOCAL_ADMIN = "admin"


def local_user(username: str = "") -> User:
    """This user, or else `admin`, who is made (without a password) where nobody has an account yet.

    Raises CommandError when there is no such active user.
    """
    if not username and not User.objects.exists():
        admin = User(username=LOCAL_ADMIN, is_staff=True, is_superuser=True)
        admin.set_unusable_password()
        admin.save()
        return admin
    wanted = username or LOCAL_ADMIN
    user = User.objects.filter(username=wanted, is_active=True).first()
    if user is None:
        names = ", ".join(User.objects.filter(is_active=True).values_list("username", flat=True)[:10])
        msg = f"there is no active user {wanted!r}; there are: {names or 'none'}"
        raise CommandError(msg)
    return user


def link(user: User, base_url: str) -> str:
    """Signs this user in, once, for as long as SESAME_MAX_AGE says."""
    return f"{base_url.rstrip('/')}{reverse('signin_link')}{get_query_string(user)}"
