"""Forms for team rules and prices: what is refused, and why."""

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from diagnostics.models import Cluster, Price, TeamRule
from diagnostics.text import printable

LABEL = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""Name of a label or annotation with its optional prefix (Kubernetes, "Labels and Selectors")."""
CURRENCY = re.compile(r"[A-Z]{3}")
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
FORMAT = "%Y-%m-%dT%H:%M"


if TYPE_CHECKING:  # Django's own forms take no parameters
    _RuleForm = forms.ModelForm[TeamRule]
    _PriceForm = forms.ModelForm[Price]
    _ChoiceField = forms.ModelChoiceField[Cluster]
else:
    _RuleForm = _PriceForm = forms.ModelForm
    _ChoiceField = forms.ModelChoiceField


class Moment(forms.DateTimeInput):
    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(format=FORMAT)


def visible(text: str) -> str:
    """Raises ValidationError for text that does not look like what it is."""
    if printable(text, len(text) + 1) != text:
        raise ValidationError("It holds characters that cannot be seen.")
    return text


class ClusterField(_ChoiceField):
    def __init__(self) -> None:
        super().__init__(Cluster.objects.all(), required=False, empty_label="every cluster")

    def label_from_instance(self, obj: Cluster) -> str:
        return printable(str(obj), 80)


class _PatternForm(forms.Form):
    """Something that holds where a pattern matches, in one cluster or in all."""

    cluster = ClusterField()

    def clean_pattern(self) -> str:
        return visible(self.cleaned_data["pattern"])


class TeamRuleForm(_RuleForm, _PatternForm):
    class Meta:
        model = TeamRule
        fields = ("priority", "by", "key", "pattern", "team", "cluster")
        labels: ClassVar = {
            "priority": "Order",
            "by": "Looks at",
            "key": "Label or annotation",
            "pattern": "Value or namespace like",
        }
        help_texts: ClassVar = {
            "priority": "Rules are tried from the lowest number up; the first that matches wins.",
            "key": "For example app.kubernetes.io/part-of. Empty for a namespace.",
            "pattern": "With * and ? for any characters. Empty: whatever it is.",
            "team": "Empty: the value itself is the team.",
        }

    def clean_team(self) -> str:
        return visible(self.cleaned_data["team"])

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        by, key = data.get("by"), data.get("key", "")
        if by == TeamRule.By.NAMESPACE:
            if key:
                self.add_error("key", "A namespace has no key: leave it empty.")
            if not data.get("pattern") and not data.get("team") and "team" in data:
                self.add_error(
                    "team", "Every namespace being a team of its own is what happens without rules."
                )
        elif by and not LABEL.fullmatch(key):
            self.add_error("key", f"That is no name of {'a label' if by == 'label' else 'an annotation'}.")
        return data


class PriceForm(_PriceForm, _PatternForm):
    class Meta:
        model = Price
        fields = ("pattern", "per_gpu_hour", "currency", "valid_from", "valid_to", "cluster")
        labels: ClassVar = {
            "pattern": "Model like",
            "per_gpu_hour": "Per GPU-hour",
            "valid_from": "From",
            "valid_to": "Until",
        }
        help_texts: ClassVar = {
            "pattern": "As its GPUs are named, with * and ?, in any case: for example *H100*.",
            "currency": "Three letters, such as USD.",
            "valid_from": "Empty: from the beginning. An hour has the price of its beginning.",
            "valid_to": "From then on it holds no more. Empty: until further notice.",
        }
        widgets: ClassVar = {"valid_from": Moment(), "valid_to": Moment()}

    def clean_per_gpu_hour(self) -> Any:
        price = self.cleaned_data["per_gpu_hour"]
        if price < 0:
            raise ValidationError("A price is not negative.")
        return price

    def clean_currency(self) -> str:
        currency: str = self.cleaned_data["currency"].upper()
        if not CURRENCY.fullmatch(currency):
            raise ValidationError("A currency has three letters, such as USD (ISO 4217).")
        return currency

    def clean_valid_from(self) -> datetime | None:
        return _possible(self.cleaned_data["valid_from"])

    def clean_valid_to(self) -> datetime | None:
        return _possible(self.cleaned_data["valid_to"])

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        start, end = data.get("valid_from"), data.get("valid_to")
        if start and end and start >= end:
            self.add_error("valid_to", "It ends before it begins.")
        return data


def _possible(moment: datetime | None) -> datetime | None:
    if moment is not None and not EARLIEST <= moment < LATEST:
        raise ValidationError("That is no time for a price.")
    return moment
