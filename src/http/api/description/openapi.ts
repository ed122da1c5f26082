import { z } from 'zod';
import {
  buildCancelSchema,
  buildDetailsSchema,
  buildStatusSchema,
  containerAnswerSchema,
  containerDetailsSchema,
  containerStatusSchema,
  inspectAnswerSchema,
  legacyAnswerSchema,
  metricAnswerSchema,
  serviceInfoSchema,
} from '../container/answer-schema.ts';
import {
  containerRequestSchema,
  credentialsSchema,
  inspectRequestSchema,
} from '../container/container-schema.ts';
import { describeApi, type OpenApi, type Operation } from './api-description.ts';

const metricQuery = { date: 'Day, yyyy-mm-dd (UTC)', org: 'Domain of an organisation' };

const operations: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1alpha2/container',
    summary: 'Request a container',
    request: containerRequestSchema,
    answer: containerAnswerSchema,
  },
  {
    method: 'get',
    path: '/v1alpha2/container/{token}',
    summary: 'Details of a container request',
    answer: containerDetailsSchema,
  },
  {
    method: 'get',
    path: '/v1alpha2/container/{token}/status',
    summary: 'State of a container request',
    answer: containerStatusSchema,
  },
  {
    method: 'post',
    path: '/container-token',
    summary: 'Request a container; superseded by /v1alpha2/container',
    request: containerRequestSchema,
    answer: legacyAnswerSchema,
    isDeprecated: true,
  },
  {
    method: 'get',
    path: '/container-token/{token}',
    summary: 'Details of a container request',
    answer: containerDetailsSchema,
  },
  {
    method: 'delete',
    path: '/container-token/{token}',
    summary: 'End a container request now',
    security: ['account'],
  },
  {
    method: 'post',
    path: '/v1alpha2/validate-creds',
    summary: 'Whether a registry takes a user name and a password',
    request: credentialsSchema,
    answer: z.boolean(),
  },
  {
    method: 'post',
    path: '/validate-creds',
    summary: 'The same; the fields may be in a member `request`',
    request: credentialsSchema,
    answer: z.boolean(),
    isDeprecated: true,
  },
  {
    method: 'post',
    path: '/v1alpha1/inspect',
    summary: 'Metadata of an image',
    request: inspectRequestSchema,
    answer: inspectAnswerSchema,
    query: { platform: 'linux/amd64 (the default), linux/arm64, or all for the whole index' },
  },
  {
    method: 'get',
    path: '/v1alpha1/builds/{buildId}',
    summary: 'What is built, where to, and how it stands',
    answer: buildDetailsSchema,
  },
  {
    method: 'get',
    path: '/v1alpha1/builds/{buildId}/status',
    summary: 'State of a build',
    answer: buildStatusSchema,
  },
  {
    method: 'get',
    path: '/v1alpha1/builds/{buildId}/logs',
    summary: 'Log of a build',
    answerType: 'text/plain',
    query: {
      follow:
        'true: until the build is over, as it is written; where text/event-stream is accepted always, as events',
    },
  },
  {
    method: 'get',
    path: '/v1alpha1/builds/{buildId}/condalock',
    summary: 'Lock file of the packages that were installed',
    answerType: 'text/plain',
  },
  {
    method: 'delete',
    path: '/v1alpha1/builds/{buildId}',
    summary: 'Cancel a build: for the caller who asked for it, and for administrators',
    answer: buildCancelSchema,
    query: { towerEndpoint: 'The platform of the access token in the Authorization header' },
  },
  ...(['v1alpha2', 'v1alpha3'] as const).flatMap(version =>
    (['builds', 'pulls', 'mounted/pulls'] as const).map(
      (metric): Operation => ({
        method: 'get',
        path: `/${version}/metrics/${metric}`,
        summary: `Usage: ${metric}`,
        answer: metricAnswerSchema,
        query: metricQuery,
        security: ['account'],
      }),
    ),
  ),
  {
    method: 'get',
    path: '/service-info',
    summary: 'Version and commit',
    answer: serviceInfoSchema,
  },
  {
    method: 'get',
    path: '/view/builds/{buildId}',
    summary: 'Redirects to the details of a build',
    status: 303,
  },
  {
    method: 'get',
    path: '/view/containers/{token}',
    summary: 'Redirects to the details of a container request',
    status: 303,
  },
  { method: 'get', path: '/healthz', summary: 'The process is alive' },
  { method: 'get', path: '/health', summary: 'The same, in the form that Wave answers' },
  { method: 'get', path: '/readyz', summary: 'Requests can be served' },
  {
    method: 'get',
    path: '/metrics',
    summary: 'Metrics in the format of Prometheus',
    answerType: 'text/plain',
  },
];

/** The description of the JSON API. */
export function createOpenApi(version: string): OpenApi {
  return describeApi({
    title: 'Sluice',
    version,
    description:
      'Container requests, builds and image metadata. The names that are answered are pulled by the OCI distribution API below /v2/; the platform that is built in describes itself in /platform/openapi.json.',
    operations,
    securitySchemes: { account: { type: 'http', scheme: 'basic' } },
  });
}
