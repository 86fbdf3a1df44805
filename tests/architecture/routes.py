"""Every route and every page, and what it answers to whom. Whoever adds a route adds a line.

The columns: nobody · a stranger (signed in, in no project) · viewer · member · admin of the project · site admin.
`401` nobody is signed in; `login` the page sends to sign-in; `404` to who may not know of the thing; `403` to who may
see it and not do this. An upload belongs to the member who began it; a site admin may enter everywhere.
"""

import io
import tarfile
from collections.abc import Mapping

API = """
                                                           nobody stranger viewer member admin root
GET    /me                                                    401      200    200    200   200  200
PATCH  /me                                                    401      200    200    200   200  200
GET    /projects                                              401      200    200    200   200  200
POST   /projects                                              401      403    403    403   403  201
PATCH  /projects/{project}                                    401      404    403    403   200  200
GET    /projects/{project}/deletion                           401      404    403    403   200  200
DELETE /projects/{project}                                    401      404    403    403   200  200
GET    /deleted-projects                                      401      200    200    200   200  200
POST   /deleted-projects/{project}/restore                    401      404    404    404   200  200
DELETE /deleted-projects/{project}                            401      404    404    404   204  204
GET    /projects/{project}/members                            401      404    200    200   200  200
GET    /projects/{project}/members/{username}                 401      404    200    200   200  200
PUT    /projects/{project}/members/{username}                 401      404    403    403   200  200
DELETE /projects/{project}/members/{username}                 401      404    403    403   204  204
GET    /projects/{project}/secrets                            401      404    403    403   200  200
GET    /projects/{project}/secrets/{name}                     401      404    403    403   200  200
PUT    /projects/{project}/secrets/{name}                     401      404    403    403   200  200
DELETE /projects/{project}/secrets/{name}                     401      404    403    403   204  204
GET    /projects/{project}/audit                              401      404    403    403   200  200
GET    /projects/{project}/storage                            401      404    200    200   200  200
PATCH  /projects/{project}/storage                            401      404    403    403   403  200
GET    /tokens                                                401      200    200    200   200  200
POST   /tokens                                                401      201    201    201   201  201
DELETE /tokens/{token_id}                                     401      204    204    204   204  204
GET    /users                                                 401      403    403    403   403  200
POST   /users                                                 401      403    403    403   403  201
POST   /users/{username}/sign-in-links                        401      403    403    403   403  201
POST   /users/{username}/disable                              401      403    403    403   403  200
POST   /users/{username}/enable                               401      403    403    403   403  200
POST   /users/{username}/sign-out                             401      404    204    404   404  204
GET    /audit                                                 401      200    200    200   200  200

GET    /datasets                                              401      200    200    200   200  200
POST   /datasets                                              401      404    403    201   201  201
GET    /datasets/{project}/{name}                             401      404    200    200   200  200
PATCH  /datasets/{project}/{name}                             401      404    403    200   200  200
GET    /datasets/{project}/{name}/deletion                   401      404    403    403   200  200
DELETE /datasets/{project}/{name}                             401      404    403    403   200  200
GET    /deleted-datasets                                      401      200    200    200   200  200
POST   /deleted-datasets/{dataset_id}/restore                 401      404    403    403   200  200
DELETE /deleted-datasets/{dataset_id}                         401      404    403    403   204  204
GET    /datasets/{project}/{name}/branches                    401      404    200    200   200  200
POST   /datasets/{project}/{name}/branches                    401      404    403    201   201  201
DELETE /datasets/{project}/{name}/branches/{branch}           401      404    403    204   204  204
GET    /datasets/{project}/{name}/tags                        401      404    200    200   200  200
POST   /datasets/{project}/{name}/tags                        401      404    403    201   201  201
DELETE /datasets/{project}/{name}/tags/{tag}                  401      404    403    204   204  204
GET    /datasets/{project}/{name}/queries                       401      404    200    200   200  200
POST   /datasets/{project}/{name}/queries                       401      404    403    201   201  201
GET    /datasets/{project}/{name}/queries/{query}               401      404    200    200   200  200
DELETE /datasets/{project}/{name}/queries/{query}               401      404    403    204   204  204
GET    /datasets/{project}/{name}/queries/{query}/files         401      404    200    200   200  200
POST   /datasets/{project}/{name}/queries/{query}/select        401      404    200    200   200  200
GET    /datasets/{project}/{name}/commits                     401      404    200    200   200  200
GET    /datasets/{project}/{name}/commits/{ref}               401      404    200    200   200  200
GET    /datasets/{project}/{name}/files                       401      404    200    200   200  200
GET    /datasets/{project}/{name}/content                     401      404    200    200   200  200
GET    /datasets/{project}/{name}/diff                        401      404    200    200   200  200
POST   /datasets/{project}/{name}/uploads                     401      404    403    201   201  201
POST   /datasets/{project}/{name}/downloads                   401      404    200    200   200  200
GET    /datasets/{project}/{name}/damage                      401      404    200    200   200  200
POST   /datasets/{project}/{name}/damage                      401      404    200    200   200  200
POST   /datasets/{project}/{name}/revert                      401      404    403    201   201  201
GET    /datasets/{project}/{name}/merge                       401      404    200    200   200  200
POST   /datasets/{project}/{name}/merge                       401      404    403    409   409  409
POST   /datasets/{project}/{name}/files/rename                401      404    403    201   201  201
POST   /uploads/{upload_id}/packs                             401      404    404    200   404  200
POST   /uploads/{upload_id}/packs/complete                    401      404    404    200   404  200
POST   /uploads/{upload_id}/manifests                         401      404    404    200   404  200
POST   /uploads/{upload_id}/downloads                         401      404    404    200   404  200
POST   /uploads/{upload_id}/commit                            401      404    404    201   404  201
PUT    /uploads/{upload_id}/parts/{number}                    401      404    404    200   404  200
GET    /uploads/{upload_id}/parts                             401      404    404    200   404  200
POST   /uploads/{upload_id}/parts/commit                      401      404    404    201   404  201
DELETE /uploads/{upload_id}                                   401      404    404    204   404  204

GET    /trees/{tree_id}/files                                 401      404    200    200   200  200
GET    /trees/{tree_id}/content                               401      404    200    200   200  200
POST   /trees/{tree_id}/downloads                             401      404    200    200   200  200
POST   /trees/{tree_id}/damage                                401      404    204    204   204  204

POST   /datasets/{project}/{name}/imports                     401      404    403    202   202  202
GET    /datasets/{project}/{name}/imports                     401      404    200    200   200  200
GET    /imports/{import_id}                                   401      404    200    200   200  200
POST   /imports/{import_id}/promote                           401      404    403    202   202  202
POST   /imports/{import_id}/cancel                            401      404    403    202   202  202
POST   /imports/{import_id}/check                             401      404    403    202   202  202
GET    /projects/{project}/sources/{name}/files               401      404    403    200   200  200
GET    /sources                                               401      200    200    200   200  200
PUT    /sources/{name}                                        401      403    403    403   403  200
DELETE /sources/{name}                                        401      403    403    403   403  204
POST   /sources/{name}/check                             401      403    403    403   403  202

GET    /cache/sites                                           401      200    200    200   200  200
POST   /cache/sites                                           401      403    403    403   403  201
PATCH  /cache/sites/{name}                                    401      403    403    403   403  200
GET    /cache/sites/{name}/array                              401      200    200    200   200  200
PUT    /cache/sites/{name}/array                              401      403    403    403   403  503
DELETE /cache/sites/{name}/array                              401      403    403    403   403  204
GET    /cache/commits                                         401      200    200    200   200  200
GET    /cache/commits/{cached_commit_id}                      401      404    200    200   200  200
GET    /cache/commits/{cached_commit_id}/events               401      404    200    200   200  200
POST   /cache/commits/{cached_commit_id}/pin                  401      404    403    200   200  200
POST   /cache/commits/{cached_commit_id}/scrub                401      404    403    202   202  202
GET    /cache/plan                                            401      200    200    200   200  200
POST   /datasets/{project}/{name}/commits/{ref}/cache         401      404    403    202   202  202
DELETE /datasets/{project}/{name}/commits/{ref}/cache         401      404    403    202   202  202

GET    /compute/resources                                     401      200    200    200   200  200
POST   /compute/resources                                     401      403    403    403   403  201
PATCH  /compute/resources/{name}                              401      403    403    403   403  200
DELETE /compute/resources/{name}                              401      403    403    403   403  204
GET    /compute/resources/{name}/events                       401      200    200    200   200  200
GET    /compute/resources/{name}/loss                         401      403    403    403   403  200
POST   /compute/resources/{name}/give-up                      401      403    403    403   403  200
GET    /copy                                                  401      401    401    401   401  401
POST   /copy/downloads                                        401      401    401    401   401  401
POST   /copy/progress                                         401      401    401    401   401  401
POST   /copy/damage                                           401      401    401    401   401  401
POST   /import-job/begin                                      401      401    401    401   401  401
POST   /import-job/progress                                   401      401    401    401   401  401
POST   /import-job/maps                                       401      401    401    401   401  401
POST   /import-job/entries                                    401      401    401    401   401  401
POST   /import-job/commit                                     401      401    401    401   401  401
POST   /import-job/next                                       401      401    401    401   401  401
POST   /import-job/sign                                       401      401    401    401   401  401
POST   /import-job/stored                                     401      401    401    401   401  401
GET    /copy/early                                            401      401    401    401   401  401
POST   /copy/early/downloads                                  401      401    401    401   401  401
POST   /copy/early/wanted                                     401      401    401    401   401  401
GET    /attempt/trees/{kind}/{name}                           401      401    401    401   401  401
POST   /attempt/output                                        401      401    401    401   401  401
GET    /compute/templates                                     401      200    200    200   200  200
POST   /compute/templates                                     401      403    403    403   403  201
PATCH  /compute/templates/{name}                              401      403    403    403   403  200
DELETE /compute/templates/{name}                              401      403    403    403   403  204
GET    /compute/jobs                                          401      200    200    200   200  200
POST   /compute/jobs                                          401      404    403    201   201  201
POST   /compute/jobs/try                                      401      404    403    200   200  200
GET    /compute/jobs/{name}                                   401      404    200    200   200  200
GET    /compute/jobs/{name}/changes                           401      404    403    200   200  200
GET    /compute/jobs/{name}/log                               401      404    200    200   200  200
GET    /compute/idle-gpus                                     401      200    200    200   200  200
GET    /compute/jobs/{name}/output                            401      404    200    200   200  200
GET    /compute/jobs/{name}/usage                             401      404    200    200   200  200
POST   /compute/jobs/{name}/exec                              401      404    403    409   409  409
POST   /compute/jobs/{name}/ports                             401      404    403    409   409  409
POST   /compute/jobs/{name}/terminals                         401      404    403    409   409  409
POST   /compute/jobs/{name}/cancel                            401      404    403    200   200  200
DELETE /compute/jobs/{name}                                   401      404    403    204   204  204
POST   /compute/jobs/{name}/suspend                           401      404    403    200   200  200
POST   /compute/jobs/{name}/resume                            401      404    403    409   409  409
POST   /compute/jobs/{name}/keep                              401      404    403    409   409  409
POST   /compute/jobs/{name}/rerun                             401      404    403    201   201  201

GET    /scheduler/consumption                                 401      200    200    200   200  200
GET    /scheduler/evictions                                   401      200    200    200   200  200
GET    /scheduler/evictions/weeks                             401      200    200    200   200  200
GET    /scheduler/forecasts                                   401      200    200    200   200  200
GET    /scheduler/pools                                       401      200    200    200   200  200
POST   /scheduler/pools                                       401      403    403    403   403  201
PATCH  /scheduler/pools/{name}                                401      403    403    403   403  200
PATCH  /scheduler/pools/{name}/sharing                        401      403    403    403   403  200
POST   /scheduler/pools/{name}/label-removals                 401      403    403    403   403  200
DELETE /scheduler/pools/{name}                                401      403    403    403   403  204
GET    /scheduler/pools/{name}/standing                       401      200    200    200   200  200
GET    /scheduler/queues                                      401      200    200    200   200  200
PATCH  /scheduler/queues                                      401      403    403    403   403  200
POST   /scheduler/quota-trials                                 401      403    403    403   403  200
GET    /scheduler/departments                                 401      200    200    200   200  200
POST   /scheduler/departments                                 401      403    403    403   403  201
DELETE /scheduler/departments/{name}                          401      403    403    403   403  204
PATCH  /scheduler/queues/{project}                            401      404    403    403   403  200
GET    /scheduler/nodes                                       401      200    200    200   200  200
PATCH  /scheduler/nodes/{node_id}                             401      403    403    403   403  200
GET    /scheduler/workloads                                   401      200    200    200   200  200

GET    /flows/schema.json                                     401      200    200    200   200  200
POST   /flows/validate                                        401      404    200    200   200  200
POST   /flows/bundles                                         401      404    403    201   201  201
POST   /code/uploads                                          401      404    403    201   201  201
POST   /code/trees                                            401      404    404    201   404  201
GET    /flows/drafts                                          401      404    404    200   404  404
PUT    /flows/drafts                                          401      404    403    200   200  200
DELETE /flows/drafts                                          401      404    403    204   204  204
POST   /flows/publish                                         401      404    403    201   201  201
POST   /flows/layout                                          401      200    200    200   200  200
GET    /flows/library                                         401      404    200    200   200  200
GET    /flows                                                 401      200    200    200   200  200
POST   /flows                                                 401      404    403    201   201  201
GET    /flows/{project}/{name}                                401      404    200    200   200  200
GET    /flows/{project}/{name}/deletion                       401      404    403    403   200  200
DELETE /flows/{project}/{name}                                401      404    403    403   204  204
GET    /flows/{project}/{name}/versions                       401      404    200    200   200  200
POST   /flows/{project}/{name}/runs                           401      404    403    201   201  201
GET    /runs                                                  401      200    200    200   200  200
GET    /runs/{run_id}                                         401      404    200    200   200  200
GET    /runs/{run_id}/deletion                                401      404    403    200   200  200
DELETE /runs/{run_id}                                         401      404    403    204   204  204
GET    /runs/{run_id}/events                                  401      404    200    200   200  200
GET    /runs/{run_id}/steps/{key}/log                         401      404    200    200   200  200
POST   /runs/{run_id}/cancel                                  401      404    403    200   200  200
POST   /runs/{run_id}/retry                                   401      404    403    200   200  200
POST   /runs/{run_id}/steps/{key}/keep                        401      404    403    201   201  201
GET    /experiments                                           401      200    200    200   200  200
POST   /experiments                                           401      404    403    201   201  201
POST   /experiments/{experiment_id}/records                   401      404    403    200   200  200
POST   /experiments/{experiment_id}/finish                    401      404    403    200   200  200
GET    /experiments/compare                                   401      404    200    200   200  200
GET    /experiments/{experiment_id}                           401      404    200    200   200  200
DELETE /experiments/{experiment_id}                           401      404    403    204   204  204
GET    /experiments/{experiment_id}/deletion                  401      404    403    200   200  200
GET    /experiments/{experiment_id}/metrics                   401      404    200    200   200  200
GET    /experiments/{experiment_id}/artifacts/{path}          401      404    200    200   200  200
PUT    /experiments/{experiment_id}/note                      401      404    403    200   200  200
PUT    /experiments/{experiment_id}/tags/{key}                401      404    403    200   200  200
DELETE /experiments/{experiment_id}/tags/{key}                401      404    403    200   200  200
GET    /experiment-views                                      401      200    200    200   200  200
POST   /experiment-views                                      401      404    403    201   201  201
PATCH  /experiment-views/{view_id}                            401      404    403    200   200  200
DELETE /experiment-views/{view_id}                            401      404    403    204   204  204

GET    /openapi.json                                          200      200    200    200   200  200
GET    /docs                                                  200      200    200    200   200  200
GET    /                                                      404      404    404    404   404  404
"""

PAGES = """
                                                           nobody stranger viewer member admin root
GET    /                                                    login      200    200    200   200  200
GET    /search/                                             login      200    200    200   200  200
GET    /projects/                                           login      200    200    200   200  200
GET    /activity/                                           login      200    200    200   200  200
GET    /live/                                               login      404    200    200   200  200
GET    /accounts/login/                                       200      302    302    302   302  302
POST   /accounts/login/                                       200      302    302    302   302  302
GET    /accounts/logout/                                      302      200    200    200   200  200
POST   /accounts/logout/                                      302      302    302    302   302  302
GET    /sign-in/{secret}/                                     200      200    200    200   200  200
POST   /sign-in/{secret}/                                     401      401    401    401   401  401
GET    /accounts/password/change/                           login      302    302    302   302  302
GET    /accounts/password/set/                              login      200    200    200   200  200
POST   /accounts/password/set/                              login      302    302    302   302  302
GET    /settings/                                           login      302    302    302   302  302
GET    /settings/profile/                                   login      200    200    200   200  200
POST   /settings/profile/                                   login      302    302    302   302  302
GET    /settings/people/                                    login      403    403    403   403  200
POST   /settings/people/new/                                login      403    403    403   403  302
POST   /settings/people/{username}/link/                    login      403    403    403   403  200
POST   /settings/people/{username}/disable/                 login      403    403    403   403  302
POST   /settings/people/{username}/enable/                  login      403    403    403   403  302
POST   /settings/people/{username}/sign-out/                login      404    302    404   404  302
GET    /settings/audit/                                     login      200    200    200   200  200
GET    /settings/health/                                    login      403    403    403   403  200
GET    /settings/tokens/                                    login      200    200    200   200  200
POST   /settings/tokens/                                    login      200    200    200   200  200
POST   /settings/tokens/{token_id}/revoke/                  login      302    302    302   302  302
GET    /settings/members/                                   login      404    200    200   200  200
POST   /settings/projects/                                  login      403    403    403   403  302
POST   /settings/projects/{name}/roles/                     login      404    403    403   302  302
POST   /settings/projects/{name}/remove/                    login      404    403    403   302  302
POST   /settings/projects/{name}/secrets/                   login      404    403    403   302  302
POST   /settings/projects/{name}/secrets/set/               login      404    403    403   302  302
POST   /settings/projects/{name}/secrets/{secret}/delete/   login      404    403    403   302  302
GET    /settings/projects/{name}/delete/                    login      404    403    403   200  200
POST   /settings/projects/{name}/delete/                    login      404    403    403   302  302
GET    /settings/deleted-projects/                          login      200    200    200   200  200
POST   /settings/deleted-projects/{name}/restore/           login      404    404    404   302  302
POST   /settings/deleted-projects/{name}/for-good/          login      404    404    404   302  302

GET    /datasets/                                           login      200    200    200   200  200
POST   /datasets/new/                                       login      404    403    302   302  302
GET    /datasets/deleted/                                   login      200    200    200   200  200
POST   /datasets/deleted/{dataset_id}/restore/              login      404    403    403   302  302
POST   /datasets/deleted/{dataset_id}/for-good/             login      404    403    403   302  302
GET    /datasets/{project}/{name}/                          login      404    200    200   200  200
GET    /datasets/{project}/{name}/content/                  login      404    200    200   200  200
GET    /datasets/{project}/{name}/thumbnail/                login      404    204    204   204  204
GET    /datasets/{project}/{name}/edit/                     login      404    200    200   200  200
GET    /datasets/{project}/{name}/merge/                    login      404    200    200   200  200
POST   /datasets/{project}/{name}/merge/now/                login      404    403    409   409  409
POST   /datasets/{project}/{name}/edit/rename/              login      404    403    302   302  302
POST   /datasets/{project}/{name}/edit/remove/              login      404    403    302   302  302
GET    /datasets/{project}/{name}/commits/                  login      404    200    200   200  200
GET    /datasets/{project}/{name}/compare/                  login      404    200    200   200  200
GET    /datasets/{project}/{name}/names/                    login      404    200    200   200  200
POST   /datasets/{project}/{name}/names/create/             login      404    403    302   302  302
POST   /datasets/{project}/{name}/names/delete/             login      404    403    302   302  302
POST   /datasets/{project}/{name}/names/move/               login      404    403    302   302  302
GET    /datasets/{project}/{name}/queries/                      login      404    200    200   200  200
POST   /datasets/{project}/{name}/queries/                      login      404    403    302   302  302
GET    /datasets/{project}/{name}/queries/{query}/              login      404    200    200   200  200
POST   /datasets/{project}/{name}/queries/{query}/select/       login      404    302    302   302  302
POST   /datasets/{project}/{name}/queries/{query}/delete/       login      404    403    302   302  302
GET    /datasets/{project}/{name}/usage/                    login      404    200    200   200  200
GET    /datasets/{project}/{name}/imports/                  login      404    200    200   200  200
POST   /datasets/{project}/{name}/imports/start/            login      404    403    302   302  302
GET    /datasets/{project}/{name}/imports/preview/          login      404    403    200   200  200
POST   /datasets/{project}/{name}/imports/{import_id}/promote/ login     404    403    302   302  302
POST   /datasets/{project}/{name}/imports/{import_id}/cancel/ login    404    403    302   302  302
POST   /datasets/{project}/{name}/imports/{import_id}/check/ login      404    403    302   302  302
GET    /datasets/{project}/{name}/settings/                 login      404    200    200   200  200
POST   /datasets/{project}/{name}/settings/                 login      404    403    302   302  302
POST   /datasets/{project}/{name}/delete/                   login      404    403    403   302  302
GET    /datasets/{project}/{name}/commits/{commit_id}/                   login  404  200  200  200  200
POST   /datasets/{project}/{name}/commits/{commit_id}/revert/           login  404  403  302  302  302
GET    /datasets/{project}/{name}/commits/{commit_id}/cache/            login  404  200  200  200  200
GET    /datasets/{project}/{name}/commits/{commit_id}/cache/forecast/   login  404  200  200  200  200
POST   /datasets/{project}/{name}/commits/{commit_id}/cache/start/      login  404  403  302  302  302

GET    /cache/                                              login      200    200    200   200  200
GET    /cache/{cached_commit_id}/clear/                     login      404    200    200   200  200
POST   /cache/{cached_commit_id}/clear/                     login      404    403    302   302  302
POST   /cache/{cached_commit_id}/pin/                       login      404    403    302   302  302
POST   /cache/{cached_commit_id}/scrub/                     login      404    403    302   302  302

GET    /settings/cache/                                     login      200    200    200   200  200
POST   /settings/cache/new/                                 login      403    403    403   403  302
POST   /settings/cache/{name}/                              login      403    403    403   403  302
POST   /settings/cache/{name}/array/                        login      403    403    403   403  422
POST   /settings/cache/{name}/array/remove/                 login      403    403    403   403  302
GET    /settings/sources/                                   login      403    403    403   403  200
POST   /settings/sources/set/                               login      403    403    403   403  302
POST   /settings/sources/{source}/projects/                 login      403    403    403   403  302
POST   /settings/sources/{source}/check/                    login      403    403    403   403  302
POST   /settings/sources/{source}/remove/                   login      403    403    403   403  302
GET    /settings/storage/                                   login      200    200    200   200  200
POST   /settings/storage/{project}/                         login      404    403    403   403  302

GET    /jobs/                                               login      200    200    200   200  200
GET    /jobs/{name}/                                        login      404    200    200   200  200
GET    /jobs/{name}/changes/                                login      404    403    200   200  200
GET    /jobs/{name}/log/                                    login      404    200    200   200  200
GET    /jobs/{name}/log/places/                             login      404    200    200   200  200
GET    /jobs/{name}/log.txt                                 login      404    200    200   200  200
POST   /jobs/{name}/cancel/                                 login      404    403    302   302  302
POST   /jobs/{name}/delete/                                 login      404    403    302   302  302
POST   /jobs/{name}/rerun/                                  login      404    403    302   302  302
POST   /jobs/{name}/suspend/                                login      404    403    302   302  302
POST   /jobs/{name}/resume/                                 login      404    403    409   409  409
POST   /jobs/{name}/keep/                                   login      404    403    409   409  409
GET    /ports/{label}/                                      login      404    403    409   409  409
GET    /compute/                                            login      200    200    200   200  200

GET    /jobs/new/                                           login      200    200    200   200  200
POST   /jobs/new/                                           login      404    403    302   302  302
GET    /compute/attach/                                     login      403    403    403   403  200
POST   /compute/attach/                                     login      403    403    403   403  302
POST   /compute/nodes/{node_id}/drain/                      login      403    403    403   403  302
GET    /compute/{name}/                                     login      200    200    200   200  200
POST   /compute/{name}/drain/                               login      403    403    403   403  302
POST   /compute/{name}/detach/                              login      403    403    403   403  302
GET    /compute/{name}/give-up/                             login      403    403    403   403  200
POST   /compute/{name}/give-up/                             login      403    403    403   403  302
GET    /compute/{name}/credentials/                         login      403    403    403   403  200
POST   /compute/{name}/credentials/                         login      403    403    403   403  302
GET    /compute/{name}/settings/                            login      403    403    403   403  200
POST   /compute/{name}/settings/                            login      403    403    403   403  400
POST   /compute/{name}/sites/                               login      403    403    403   403  302
POST   /compute/{name}/templates/                           login      403    403    403   403  302
POST   /compute/{name}/templates/{template}/delete/         login      403    403    403   403  302
GET    /analytics/                                          login      200    200    200   200  200
GET    /analytics/consumption.csv                           login      200    200    200   200  200
GET    /forecasts/                                          login      200    200    200   200  200
GET    /forecasts/forecasts.csv                             login      200    200    200   200  200
GET    /quotas/                                             login      200    200    200   200  200
POST   /quotas/changes/try/                                 login      302    302    302   302  302
POST   /quotas/changes/save/                                login      403    403    403   403  302
POST   /quotas/departments/new/                             login      403    403    403   403  302
POST   /quotas/pools/move/                                  login      403    403    403   403  302
POST   /quotas/pools/take-out/                              login      403    403    403   403  302
POST   /quotas/departments/{department}/save/               login      403    403    403   403  302
POST   /quotas/sharing/save/                                login      403    403    403   403  302
POST   /quotas/{project}/                                   login      404    403    403   403  302

GET    /flows/                                              login      200    200    200   200  200
GET    /flows/new/                                          login      200    200    200   200  200
POST   /flows/new/                                          login      404    403    302   302  302
GET    /flows/{project}/{name}/                             login      404    200    200   200  200
GET    /flows/{project}/{name}/delete/                      login      404    403    403   200  200
POST   /flows/{project}/{name}/delete/                      login      404    403    403   302  302
GET    /flows/{project}/{name}/edit/                        login      404    200    200   200  200
POST   /flows/{project}/{name}/edit/                        login      404    403    302   302  302
GET    /flows/{project}/{name}/versions/                    login      404    200    200   200  200
GET    /flows/{project}/{name}/run/                         login      404    200    200   200  200
POST   /flows/{project}/{name}/run/                         login      404    403    302   302  302
GET    /runs/{run_id}/                                      login      404    200    200   200  200
POST   /runs/{run_id}/cancel/                               login      404    403    302   302  302
GET    /runs/{run_id}/delete/                               login      404    403    200   200  200
POST   /runs/{run_id}/delete/                               login      404    403    302   302  302
POST   /runs/{run_id}/retry/                                login      404    403    302   302  302
GET    /runs/{run_id}/steps/{key}/keep/                     login      404    200    200   200  200
POST   /runs/{run_id}/steps/{key}/keep/                     login      404    403    302   302  302
GET    /experiments/                                        login      200    200    200   200  200
GET    /experiments/csv/                                    login      200    200    200   200  200
GET    /experiments/compare/                                login      404    200    200   200  200
GET    /experiments/points/                                 login      404    200    200   200  200
GET    /experiments/numbers/                                login      404    200    200   200  200
POST   /experiments/views/                                  login      404    403    302   302  302
POST   /experiments/views/{view_id}/rename/                 login      404    403    302   302  302
POST   /experiments/views/{view_id}/delete/                 login      404    403    302   302  302
GET    /experiments/{experiment_id}/                        login      404    200    200   200  200
POST   /experiments/{experiment_id}/delete/                 login      404    403    302   302  302
POST   /experiments/{experiment_id}/note/                   login      404    403    302   302  302
POST   /experiments/{experiment_id}/tags/                   login      404    403    302   302  302
POST   /experiments/{experiment_id}/tags/remove/            login      404    403    302   302  302
GET    /experiments/{experiment_id}/artifacts/{path}        login      404    200    200   200  200

GET    /store/{signed}                                        403      403    403    403   403  403
PUT    /store/{signed}                                        403      403    403    403   403  403
GET    /healthz                                               200      200    200    200   200  200
GET    /readyz                                                200      200    200    200   200  200
GET    /metrics                                               200      200    200    200   200  200
"""

PARAMETERS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("/projects/{project}/secrets", {"name": "secret"}),
    ("/deleted-projects", {"project": "deleted_project"}),
    ("/settings/deleted-projects", {"name": "deleted_project"}),
    ("/settings/projects", {"name": "project"}),
    ("POST /datasets/{project}/{name}/commits/{ref}/cache", {"name": "dataset", "ref": "first"}),
    ("POST /datasets/{project}/{name}/commits/{commit_id}/cache/start/", {"name": "dataset", "commit_id": "first"}),
    ("POST /datasets/{project}/{name}/commits/{commit_id}/revert/", {"name": "dataset", "commit_id": "first"}),
    (
        "POST /datasets/{project}/{name}/imports/{import_id}/cancel/",
        {"name": "dataset", "import_id": "running_import"},
    ),
    ("/imports/{import_id}/cancel", {"import_id": "running_import"}),
    ("POST /uploads/{upload_id}/parts/commit", {"upload_id": "parts"}),
    ("/deleted-datasets", {"dataset_id": "deleted"}),
    ("/datasets/deleted/", {"dataset_id": "deleted"}),
    ("/datasets", {"name": "dataset", "ref": "second", "commit_id": "second"}),
    ("/uploads", {"upload_id": "upload"}),
    ("/projects/{project}/sources", {"name": "spare_source"}),
    ("/sources", {"name": "spare_source"}),
    ("/settings/sources/", {"source": "spare_source"}),
    ("/cache/sites", {"name": "site"}),
    ("/settings/cache/", {"name": "site"}),
    ("/cache", {"cached_commit_id": "cached"}),
    ("/attempt/trees", {"kind": "job", "name": "job"}),
    ("/compute/resources/{name}/loss", {"name": "away"}),
    ("/compute/resources/{name}/give-up", {"name": "away"}),
    ("/compute/resources", {"name": "resource"}),
    ("/compute/templates", {"name": "template"}),
    ("/compute/{name}/templates/{template}/", {"name": "lab", "template": "shape"}),
    ("/compute/jobs/{name}/output", {"name": "ended_job"}),
    ("/compute/jobs", {"name": "job"}),
    ("/scheduler/pools", {"name": "pool"}),
    ("/scheduler/departments", {"name": "department"}),
    ("/compute/{name}/give-up/", {"name": "away"}),
    ("/compute/{name}/", {"name": "resource"}),
    ("/jobs", {"name": "job"}),
    ("/ports", {"label": "port"}),
    ("DELETE /flows/{project}/{name}", {"name": "idle_flow"}),
    ("/flows/{project}/{name}/delet", {"name": "idle_flow"}),
    ("/flows", {"name": "flow"}),
    ("DELETE /runs/{run_id}", {"run_id": "ended"}),
    ("/runs/{run_id}/delet", {"run_id": "ended"}),
    ("/runs/{run_id}/retry", {"run_id": "failed"}),
    ("/runs/{run_id}/steps/{key}/keep", {"run_id": "ended"}),
    ("/runs", {"run_id": "run"}),
    ("/experiments/{experiment_id}/records", {"experiment_id": "standalone"}),
    ("/experiments/{experiment_id}/finish", {"experiment_id": "standalone"}),
    ("DELETE /experiments/{experiment_id}", {"experiment_id": "finished"}),
    ("/experiments/{experiment_id}/delet", {"experiment_id": "finished"}),
    ("/experiments", {"experiment_id": "experiment", "view_id": "view"}),
    ("/experiment-views", {"view_id": "view"}),
)
"""Which thing of the world a parameter stands for, by the route or its beginning; else the one of the same name."""

WORDS = {
    "number": "7",
    "branch": "side",
    "tag": "v1",
    "query": "texts",
    "key": "train",
    "path": "report.txt",
    "signed": "nonsense",
}
"""Parameters whose value is always the same."""

FLOW = 'flow: digits\nsteps: [{name: train, command: "false"}]\n'


def bundle(name: str = "train.py") -> bytes:
    """Return a folder of code as older clients send it with a flow."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = 5
        archive.addfile(member, io.BytesIO(b"pass\n"))
    return packed.getvalue()


def part() -> bytes:
    """Return a part of an upload with one small file."""
    described = b'{"files": [{"path": "b.txt", "size_bytes": 3, "mtime_ms": 0}]}'
    return len(described).to_bytes(4, "big") + described + b"two"


def queries(values: Mapping[str, str]) -> dict[str, str]:
    """Return what follows the question mark, where a route needs it."""
    return {
        "GET /datasets/{project}/{name}/content": "path=a.txt",
        "GET /trees/{tree_id}/content": "path=report.txt",
        "GET /datasets/{project}/{name}/diff": f"base={values['first']}",
        "GET /datasets/{project}/{name}/merge": "source=side",
        "POST /datasets/{project}/{name}/files/rename": "path=a.txt&to=b.txt",
        "GET /datasets/{project}/{name}/merge/": "source=side",
        "GET /datasets/{project}/{name}/imports/preview/": "source=shelf",
        "POST /flows/bundles": "project=team-a",
        "GET /flows/drafts": "project=team-a&key=digits",
        "DELETE /flows/drafts": "project=team-a&key=digits",
        "GET /flows/library": "project=team-a",
        "GET /experiments/compare": f"ids={values['experiment']}",
        "GET /experiments/{experiment_id}/metrics": "key=loss",
        "GET /settings/members/": "project=team-a",
        "GET /datasets/{project}/{name}/content/": "path=a.txt",
        "GET /datasets/{project}/{name}/thumbnail/": "path=a.txt",
        "GET /datasets/{project}/{name}/edit/": "path=a.txt",
        "POST /datasets/{project}/{name}/edit/rename/": "path=a.txt",
        "POST /datasets/{project}/{name}/edit/remove/": "path=a.txt",
        "GET /datasets/{project}/{name}/compare/": f"base={values['first']}",
        "GET /experiments/compare/": f"ids={values['experiment']}",
        "GET /experiments/points/": f"ids={values['experiment']}&key=loss",
        "GET /experiments/numbers/": f"ids={values['experiment']}&key=loss",
        "GET /jobs/{name}/log/places/": "text=a",
        "GET /live/": f"topic=run:{values['run']}",
    }


def bodies(values: Mapping[str, str]) -> dict[str, object]:
    """Return what is sent: JSON to the API, fields of a form to a page."""
    pack = {"sha256": values["pack"], "size_bytes": int(values["pack_bytes"])}
    manifest = {"kind": "root", "id": "0" * 64, "size_bytes": 10, "sha256": "0" * 64}
    shape = {"cpu_millicores": 1000, "memory_bytes": 2**30}
    return {
        "POST /projects": {"name": "team-b"},
        "PATCH /projects/{project}": {"secret_users": "admin"},
        "PUT /projects/{project}/members/{username}": {"role": "member"},
        "PUT /projects/{project}/secrets/{name}": {"value": "new"},
        "PATCH /projects/{project}/storage": {"limit_bytes": 10**12},
        "POST /tokens": {"name": "another"},
        "PATCH /me": {"first_name": "Ada"},
        "POST /users": {"username": "ada", "password": "a long enough password"},
        "POST /users/{username}/disable": {},
        "POST /users/{username}/sign-out": {},
        "POST /datasets": {"project": "team-a", "name": "more"},
        "PATCH /datasets/{project}/{name}": {"description": "seen"},
        "POST /datasets/{project}/{name}/branches": {"name": "new", "at": "latest"},
        "POST /datasets/{project}/{name}/tags": {"name": "v2", "commit": "latest"},
        "POST /datasets/{project}/{name}/queries": {"name": "new", "types": ["txt"]},
        "POST /datasets/{project}/{name}/uploads": {"branch": "main"},
        "POST /datasets/{project}/{name}/downloads": {"objects": [{"kind": "root", "id": values["second_root"]}]},
        "POST /datasets/{project}/{name}/damage": {"packs": [values["pack"]]},
        "POST /trees/{tree_id}/downloads": {"objects": [{"kind": "root", "id": values["output_root"]}]},
        "POST /trees/{tree_id}/damage": {"packs": [values["pack"]]},
        "POST /deleted-datasets/{dataset_id}/restore": {},
        "POST /datasets/{project}/{name}/revert": {"commit": values["first"], "branch": "main"},
        "POST /datasets/{project}/{name}/imports": {"source": "shelf"},
        "PUT /sources/{name}": {},
        "POST /datasets/{project}/{name}/merge": {"source": "side", "into": "main"},
        "POST /uploads/{upload_id}/packs": {"packs": [pack]},
        "POST /uploads/{upload_id}/packs/complete": {"packs": [values["pack"]]},
        "POST /uploads/{upload_id}/manifests": {"objects": [manifest]},
        "POST /uploads/{upload_id}/downloads": {"objects": [{"kind": "root", "id": values["second_root"]}]},
        "PUT /uploads/{upload_id}/parts/{number}": part(),
        "POST /uploads/{upload_id}/parts/commit": {"expected_head": values["second"]},
        "POST /uploads/{upload_id}/commit": {"root": values["root"], "expected_head": values["second"]},
        "POST /cache/sites": {"name": "more", "root": f"{values['folder']}/more", "capacity_bytes": 10**6},
        "PATCH /cache/sites/{name}": {"idle_days": 2},
        "PUT /cache/sites/{name}/array": {
            "url": "https://127.0.0.1:1",
            "svm": "svm1",
            "user": "reader",
            "password": "secret",
        },
        "POST /cache/commits/{cached_commit_id}/pin": {"pinned": True},
        "POST /datasets/{project}/{name}/commits/{ref}/cache": {},
        "POST /compute/resources": {"name": "more", "kind": "simulated", "nodes": [{"name": "n-1", **shape}]},
        "PATCH /compute/resources/{name}": {"sites": []},
        "PATCH /compute/templates/{name}": {"price_per_hour": "2.5"},
        "POST /compute/templates": {"resource": "lab", "name": "more", **shape},
        "POST /compute/jobs": {"project": "team-a", "template": "lab.small", "command": "true"},
        "POST /compute/jobs/try": {"project": "team-a", "template": "lab.small", "command": "true"},
        "POST /compute/jobs/{name}/exec": {"command": ["true"]},
        "POST /compute/jobs/{name}/ports": {"port": 8888},
        "POST /compute/jobs/{name}/terminals": {"command": ["bash"]},
        "POST /compute/jobs/{name}/cancel": {},
        "POST /compute/jobs/{name}/rerun": {},
        "POST /scheduler/pools": {"name": "more"},
        "PATCH /scheduler/queues": {"changes": [{"queue": "team-a", "gpu_quota_milli": 1000}]},
        "POST /scheduler/quota-trials": {"changes": [{"queue": "team-a", "gpu_quota_milli": 1000}]},
        "POST /scheduler/departments": {"name": "more"},
        "PATCH /scheduler/pools/{name}": {"resources": []},
        "POST /scheduler/pools/{name}/label-removals": {"resources": ["spare"], "label": "gpu=rare"},
        "PATCH /scheduler/pools/{name}/sharing": {"preset": "steady"},
        "PATCH /scheduler/nodes/{node_id}": {"is_drained": True},
        "PATCH /scheduler/queues/{project}": {"gpu_quota_milli": 1000},
        "POST /flows/validate": {"project": "team-a", "text": FLOW},
        "POST /flows/bundles": bundle(),
        "POST /code/uploads": {"project": "team-a"},
        "POST /code/trees": {"upload": values["code_upload"], "root": values["code_root"]},
        "POST /flows": {"project": "team-a", "text": FLOW},
        "PUT /flows/drafts": {"project": "team-a", "key": "digits", "text": FLOW, "revision": 1},
        "POST /flows/publish": {"project": "team-a", "key": "digits", "text": FLOW, "base_version": 1},
        "POST /flows/layout": {"parents": {"train": []}},
        "POST /flows/{project}/{name}/runs": {},
        "POST /experiments": {"project": "team-a", "title": "elsewhere"},
        "POST /experiments/{experiment_id}/records": {"metrics": [{"key": "loss", "value": 0.5}]},
        "POST /experiments/{experiment_id}/finish": {},
        "POST /runs/{run_id}/steps/{key}/keep": {"dataset": "models", "create": True},
        "POST /runs/{run_id}/steps/{key}/keep/": {"dataset": "models"},
        "POST /flows/{project}/{name}/delete/": {"confirmed": "idle"},
        "PUT /experiments/{experiment_id}/note": {"note": "Look again."},
        "PUT /experiments/{experiment_id}/tags/{key}": {"value": "yes"},
        "POST /experiment-views": {"project": "team-a", "name": "mine", "query": "q=tags.best"},
        "PATCH /experiment-views/{view_id}": {"name": "another"},
        "POST /experiments/views/{view_id}/rename/": {"name": "another"},
        "POST /experiments/views/": {"project": "team-a", "name": "mine", "query": "q=tags.best"},
        "POST /experiments/{experiment_id}/note/": {"note": "Look again."},
        "POST /experiments/{experiment_id}/tags/": {"tag": "split=patient"},
        "POST /experiments/{experiment_id}/tags/remove/": {"tag": "split"},
        "POST /accounts/login/": {"login": "nobody", "password": "wrong"},
        "POST /accounts/password/set/": {"password1": "a new long password", "password2": "a new long password"},
        "POST /jobs/new/": {"project": "team-a", "template": "lab.small", "command": "true"},
        "POST /compute/attach/": {
            "name": "more",
            "kind": "simulated",
            "nodes": "1",
            "cpu": "1",
            "memory": "1 GB",
            "gpus": "0",
            "gpu_memory": "0",
        },
        "POST /compute/nodes/{node_id}/drain/": {"drained": "1"},
        "POST /compute/{name}/drain/": {"drained": "1"},
        "POST /compute/{name}/sites/": {"sites": ""},
        "POST /compute/{name}/templates/": {"name": "more", "cpu": "1", "memory": "1 GB", "gpus": "0"},
        "POST /quotas/changes/save/": {f"gpus:{values['queue_id']}": "3"},
        "POST /quotas/departments/new/": {"name": "more"},
        "POST /quotas/departments/{department}/save/": {"gpus": "2"},
        "POST /quotas/sharing/save/": {"preset": "steady"},
        "POST /quotas/pools/move/": {"resource": "spare", "new_pool": "more"},
        "POST /quotas/pools/take-out/": {"place": "spare:gpu=rare", "pool": values["pool"]},
        "POST /quotas/{project}/": {"gpus": "2"},
        "POST /settings/cache/new/": {"name": "more", "folder-root": f"{values['folder']}/more", "idle_days": "1"},
        "POST /settings/cache/{name}/": {"capacity": "1 GB", "idle_days": "2"},
        "POST /settings/sources/set/": {"kind": "folder", "name": "spare", "folder": f"{values['folder']}/spare"},
        "POST /datasets/{project}/{name}/imports/start/": {"source": "shelf"},
        "POST /settings/storage/{project}/": {"limit": "1 TB"},
        "POST /settings/profile/": {"first_name": "Ada", "last_name": "Lovelace"},
        "POST /settings/people/new/": {"username": "ada"},
        "POST /settings/tokens/": {"name": "another", "days": "30"},
        "POST /settings/projects/": {"name": "team-b"},
        "POST /settings/projects/{name}/roles/": {"username": "newcomer", "role": "viewer"},
        "POST /settings/projects/{name}/secrets/": {"secret_users": "admin"},
        "POST /settings/projects/{name}/secrets/set/": {"name": "HF_TOKEN", "value": "hidden"},
        "POST /settings/projects/{name}/remove/": {"username": "viewer"},
        "POST /compute/{name}/give-up/": {"confirmed": "away"},
        "POST /settings/projects/{name}/delete/": {"confirmed": "team-a"},
        "POST /datasets/new/": {"project": "team-a", "name": "more"},
        "POST /datasets/{project}/{name}/names/create/": {"kind": "branch", "label": "new", "at": "latest"},
        "POST /datasets/{project}/{name}/names/delete/": {"kind": "branch", "label": "side"},
        "POST /datasets/{project}/{name}/edit/rename/": {"branch": "main", "head": values["second"], "to": "b.txt"},
        "POST /datasets/{project}/{name}/edit/remove/": {"branch": "main", "head": values["second"]},
        "POST /datasets/{project}/{name}/merge/now/": {"source": "side", "into": "main"},
        "POST /datasets/{project}/{name}/names/move/": {
            "label": "side",
            "expected": values["first"],
            "at": values["second"],
        },
        "POST /datasets/{project}/{name}/queries/": {"name": "new", "types": "txt"},
        "POST /datasets/{project}/{name}/settings/": {"description": "seen", "kind": "images"},
        "POST /datasets/{project}/{name}/delete/": {"confirmed": "xrays"},
        "POST /datasets/{project}/{name}/commits/{commit_id}/revert/": {"branch": "main"},
        "POST /datasets/{project}/{name}/commits/{commit_id}/cache/start/": {"site": "local"},
        "POST /cache/{cached_commit_id}/pin/": {"pinned": "1"},
        "POST /flows/new/": {"project": "team-a", "text": FLOW.replace("digits", "letters")},
        "POST /flows/{project}/{name}/edit/": {"project": "team-a", "text": FLOW, "base": "1"},
    }


WRITE_NOTHING = frozenset(
    {
        "POST /compute/jobs/try",
        "POST /flows/validate",
        "POST /scheduler/quota-trials",
        "POST /quotas/changes/try/",
        "POST /flows/layout",
        "PUT /flows/drafts",
        "DELETE /flows/drafts",
        "POST /datasets/{project}/{name}/downloads",
        "POST /trees/{tree_id}/downloads",
        "POST /uploads/{upload_id}/packs",
        "POST /uploads/{upload_id}/packs/complete",
        "POST /uploads/{upload_id}/manifests",
        "POST /uploads/{upload_id}/downloads",
        "PUT /uploads/{upload_id}/parts/{number}",
        "POST /accounts/login/",
        "POST /accounts/logout/",
    }
)
"""Allowed calls that leave no entry in the audit log: they change nothing that anybody could see."""
