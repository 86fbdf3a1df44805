"""The address of the folder store's endpoint."""

from django.urls import path

from datasets.web import store_views

urlpatterns = [path("<str:signed>", store_views.store_object, name="store-object")]
