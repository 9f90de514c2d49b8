"""What may be asked without having signed in: is it alive, and the one-time sign-in link."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from sesame.views import LoginView


@login_not_required
@never_cache
@require_safe
def healthz(_: HttpRequest) -> HttpResponse:
    """200 when the database answers, else 503. Says no more, because anybody may ask."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return JsonResponse({"status": "unavailable"}, status=503)
    return JsonResponse({"status": "ok"})


@method_decorator([login_not_required, never_cache], name="dispatch")
class SignInLink(LoginView):  # type: ignore[misc]  # sesame has no types
    """Signs in whoever brings a fresh token. Only GET: a program that merely probes the link must not use it up."""

    http_method_names = ("get",)

    def login_failed(self) -> Any:
        messages.error(
            self.request,
            "This sign-in link was used before or is too old. Get another one: gpuhealth signin_link",
        )
        return redirect("login")
