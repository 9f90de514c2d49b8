"""Addresses of the project; those of the pages are in `diagnostics.urls`."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from gpuhealth.access import SignInLink, healthz

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("login/link/", SignInLink.as_view(), name="signin_link"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("", include("diagnostics.urls")),
]
