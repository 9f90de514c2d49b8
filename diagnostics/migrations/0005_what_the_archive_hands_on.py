import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("diagnostics", "0004_what_topology_remembers"),
    ]

    operations = [
        migrations.CreateModel(
            name="ArchiveState",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("past", models.BinaryField(default=bytes)),
                ("rolled_up_to", models.DateTimeField(null=True)),
                (
                    "cluster",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="archive_state",
                        to="diagnostics.cluster",
                    ),
                ),
            ],
        ),
    ]
