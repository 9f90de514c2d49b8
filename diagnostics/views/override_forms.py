"""The form of an exception: what a site judges differently, what is refused, and why."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone

from diagnostics.clusters import limit_value
from diagnostics.findings import Severity
from diagnostics.limits import SITE_ONLY
from diagnostics.models import RuleOverride
from diagnostics.rules import catalogue
from diagnostics.rules.base import Rule
from diagnostics.text import printable
from diagnostics.views.usage_forms import LATEST, ClusterField, Moment, visible

MOST_LINES = 60

if TYPE_CHECKING:  # Django's own forms take no parameters
    _OverrideForm = forms.ModelForm[RuleOverride]
else:
    _OverrideForm = forms.ModelForm


def judging() -> tuple[Rule, ...]:
    """The rules that make findings: a blind spot is nothing to except."""
    return tuple(rule for rule in catalogue() if rule.family != "blind_spots")


class _LimitsField(forms.CharField):
    """Limits as text, one a line: `pending_after = 1h`."""

    widget = forms.Textarea(attrs={"rows": 3, "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return "\n".join(
                f"{printable(name, 80)} = {printable(str(text), 80)}" for name, text in value.items()
            )
        return value

    def clean(self, value: Any) -> Any:
        """A dictionary. Raises ValidationError, naming the line."""
        lines = [line.strip() for line in (super().clean(value) or "").splitlines() if line.strip()]
        if len(lines) > MOST_LINES:
            raise ValidationError("These are too many lines.")
        found: dict[str, str] = {}
        for line in lines:
            name, equals, text = (part.strip() for part in line.partition("="))
            if not equals:
                raise ValidationError(f"“{printable(line, 60)}” is not of the form name = value.")
            if name in SITE_ONLY:
                raise ValidationError(
                    f"{name} defines the states of GPUs: it is set for the whole site, where its clusters are declared."
                )
            if name in found:
                raise ValidationError(f"{name} is given twice.")
            try:
                limit_value(name, text)
            except ValueError as error:
                raise ValidationError(f"{printable(name, 60)}: {printable(str(error), 120)}.") from None
            found[name] = text
        return found


class OverrideForm(_OverrideForm):
    rule = forms.ChoiceField(required=False)
    cluster = ClusterField()
    severity = forms.ChoiceField(
        required=False, choices=[("", "as the rule has it"), *((s.value, s.value) for s in Severity)]
    )
    values = _LimitsField(required=False, label="Limits", max_length=4000)

    class Meta:
        model = RuleOverride
        fields = ("rule", "cluster", "namespace", "exempt", "severity", "values", "reason", "expires_at")
        labels: ClassVar = {"exempt": "Off: raise nothing", "expires_at": "Until"}
        help_texts: ClassVar = {
            "namespace": "Empty: every namespace, and what has none.",
            "exempt": "What is found stays listed as exempted, with the reason.",
            "reason": "Stands on every finding that this touches.",
            "expires_at": "From then on it changes nothing. Empty: until further notice.",
        }
        widgets: ClassVar = {"expires_at": Moment()}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rule = self.fields["rule"]
        assert isinstance(rule, forms.ChoiceField)  # noqa: S101 - for the type checker
        rule.choices = [("", "every rule"), *((r.slug, f"{r.code} {r.slug}") for r in judging())]
        self.fields[
            "values"
        ].help_text = "One a line, such as pending_after = 10m. Empty: as the site has them."

    def clean_namespace(self) -> str:
        return visible(self.cleaned_data["namespace"])

    def clean_reason(self) -> str:
        return visible(self.cleaned_data["reason"])

    def clean_expires_at(self) -> datetime | None:
        moment: datetime | None = self.cleaned_data["expires_at"]
        if moment is not None and moment >= LATEST:
            raise ValidationError("That is no time at which something ends.")
        if moment is not None and moment <= timezone.now():
            raise ValidationError("That is over: it would change nothing.")
        return moment

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        asked = {"exempt", "severity", "values"}
        if asked <= data.keys() and not any(data[name] for name in asked):
            raise ValidationError(
                "It changes nothing: switch the rule off there, or give a severity or limits."
            )
        if data.get("exempt") and not data.get("rule") and not data.get("namespace"):
            self.add_error("exempt", "That would silence every rule: choose a rule or a namespace.")
        return data
