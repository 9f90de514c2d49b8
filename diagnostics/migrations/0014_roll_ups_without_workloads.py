from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("diagnostics", "0013_device_without_last_active"),
    ]

    operations = [
        migrations.RemoveField(
            model_name="usagerollup",
            name="workloads",
        ),
    ]
