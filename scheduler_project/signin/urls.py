"""Addresses for signing in, below ``/admin/`` and before Django's own addresses."""

from django.urls import URLPattern, path

from scheduler_project.signin.code import SignInCode
from scheduler_project.signin.oidc import sign_in_oidc, sign_in_oidc_back
from scheduler_project.signin.own import OwnSecondFactor
from scheduler_project.signin.password import sign_in

urlpatterns: list[URLPattern] = [
    path("login/", sign_in, name="sign_in"),
    path("login/code/", SignInCode.as_view(), name="sign_in_code"),
    path("login/oidc/", sign_in_oidc, name="sign_in_oidc"),
    path("login/oidc/back/", sign_in_oidc_back, name="sign_in_oidc_back"),
    path("second-factor/", OwnSecondFactor.as_view(), name="second_factor"),
]
