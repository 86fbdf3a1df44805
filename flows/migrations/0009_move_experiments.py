"""Experiments are an app of their own: their tables get its name, and `experiments.0001` takes the models over."""

from django.db import migrations

_MODELS = ("artifact", "metricpoint", "metricstretch", "metriclast", "fact", "factkey", "savedview", "experiment")


class Migration(migrations.Migration):
    dependencies = [("flows", "0008_leases")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.AlterModelTable(name, f"experiments_{name}") for name in _MODELS],
            state_operations=[migrations.DeleteModel(name) for name in _MODELS],
        ),
    ]
