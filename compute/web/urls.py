"""Addresses of the overview, of jobs and of compute resources."""

from django.urls import path

from compute.web import analytics, jobs, logs, overview, resource_page, resources, submit

app_name = "compute"
urlpatterns = [
    path("", overview.overview_page, name="overview"),
    path("jobs/", jobs.jobs_page, name="jobs"),
    path("jobs/new/", submit.submit_page, name="submit"),
    path("jobs/<str:name>/", jobs.job_page, name="job"),
    path("jobs/<str:name>/changes/", jobs.changes_part, name="job_changes"),
    path("jobs/<str:name>/log/", logs.read_log, name="job_log"),
    path("jobs/<str:name>/log/places/", logs.find_in_log, name="job_log_places"),
    path("jobs/<str:name>/log.txt", logs.download_log, name="job_log_file"),
    path("jobs/<str:name>/cancel/", jobs.cancel, name="cancel_job"),
    path("jobs/<str:name>/delete/", jobs.delete, name="delete_job"),
    path("jobs/<str:name>/rerun/", jobs.rerun, name="rerun_job"),
    path("jobs/<str:name>/suspend/", jobs.suspend, name="suspend_job"),
    path("jobs/<str:name>/resume/", jobs.resume, name="resume_job"),
    path("jobs/<str:name>/keep/", jobs.keep, name="keep_job"),
    path("ports/<str:label>/", jobs.open_port, name="port"),
    path("analytics/", analytics.analytics_page, name="analytics"),
    path("analytics/consumption.csv", analytics.download_consumption, name="consumption_file"),
    path("compute/", resources.compute_page, name="compute"),
    path("compute/attach/", resources.attach_page, name="attach"),
    path("compute/nodes/<str:node_id>/drain/", resources.drain, name="drain"),
    path("compute/<str:name>/", resource_page.resource_page, name="resource"),
    path("compute/<str:name>/drain/", resource_page.drain, name="drain_resource"),
    path("compute/<str:name>/detach/", resources.detach, name="detach"),
    path("compute/<str:name>/give-up/", resource_page.give_up_page, name="give_up"),
    path("compute/<str:name>/credentials/", resources.credentials_page, name="credentials"),
    path("compute/<str:name>/settings/", resources.settings_page, name="settings"),
    path("compute/<str:name>/sites/", resources.set_sites, name="set_sites"),
    path("compute/<str:name>/templates/", resources.add_template, name="add_template"),
    path("compute/<str:name>/templates/<str:template>/delete/", resources.delete_template, name="delete_template"),
]
