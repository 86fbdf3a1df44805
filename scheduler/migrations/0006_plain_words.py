"""Fields and models take the field's words; no row changes."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0005_workload_title")]

    operations = [
        migrations.RenameModel("Promise", "Reservation"),
        migrations.RenameModel("Stay", "PastPlacement"),
        migrations.AlterField(
            "reservation",
            "node",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="reservations", to="scheduler.node"
            ),
        ),
        migrations.AlterField(
            "reservation",
            "workload",
            models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE, related_name="reservation", to="scheduler.workload"
            ),
        ),
        migrations.AlterField(
            "pastplacement",
            "queue",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="past_placements", to="scheduler.queue"
            ),
        ),
        migrations.RenameField("placement", "leaving_at", "evicting_since"),
        migrations.RemoveIndex("placement", "placements_to_take"),
        migrations.RenameField("placement", "is_taken", "is_claimed"),
        migrations.AddIndex(
            "placement",
            models.Index(condition=models.Q(("is_claimed", False)), fields=["id"], name="unclaimed_placements"),
        ),
    ]
