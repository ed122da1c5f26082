import { z } from 'zod';
import { Fault } from '../fault.ts';
import { withoutAliases } from './aliases.ts';

// null is what some clients send for a field that is not set.
const optional = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform(value => value ?? undefined);

const wholeNumber = 'expected a whole number, or its digits as a string';
const numeric = z
  .union([z.number(), z.string()], wholeNumber)
  .transform(value => (/^\d+$/.test(String(value)) ? Number(value) : Number.NaN))
  .refine(value => Number.isSafeInteger(value) && value >= 0, wholeNumber);

const text = z.string().refine(value => !value.includes('\0'), 'has a NUL character in it');
const strings = z.array(text);

const layerSchema = z.object({
  location: z.string().describe('HTTP URL of a tar.gz file, or `data:` and its base64'),
  tarDigest: optional(z.string()).describe('`sha256:` and hex of the tar file'),
  gzipDigest: optional(z.string()).describe('`sha256:` and hex of the tar.gz file'),
  gzipSize: optional(numeric).describe('Size of the tar.gz file in bytes'),
});

const configSchema = z.object({
  entrypoint: optional(strings).describe('Replaces the entrypoint of the image'),
  cmd: optional(strings).describe('Replaces the command of the image'),
  env: optional(strings).describe('`NAME=value` each, merged into the environment by name'),
  workingDir: optional(text).describe('Replaces the working directory'),
  layers: optional(z.array(layerSchema)).describe('Layers put on top of the image'),
});

const condaOptionsSchema = z.object({
  mambaImage: optional(z.string()).describe('Image with the package manager'),
  baseImage: optional(z.string()).describe('Image that the packages are put into'),
  basePackages: optional(z.string()).describe('Packages that every image gets'),
  commands: optional(strings).describe('Commands that are run in the image'),
});

const packagesSchema = z.object({
  type: optional(z.string()).describe('`CONDA`'),
  environment: optional(z.string()).describe('Conda environment file, base64'),
  entries: optional(strings).describe('Package names, with versions where wanted'),
  channels: optional(strings).describe('Conda channels, the first one first'),
  condaOpts: optional(condaOptionsSchema),
  spackOpts: optional(z.unknown()).describe('Deprecated'),
});

/** Body of `POST /v1alpha2/container`. Source: container service specification, sections 2.1 to 2.3. */
export const containerRequestSchema = z
  .object({
    containerImage: optional(z.string()).describe('Image to serve: `registry/path:tag`'),
    containerFile: optional(z.string()).describe(
      'Dockerfile, or with `sif` a Singularity definition file, base64',
    ),
    containerConfig: optional(configSchema).describe('Changes to the image'),
    condaFile: optional(z.string()).describe('Conda environment file, base64'),
    spackFile: optional(z.string()).describe('Deprecated'),
    containerPlatform: optional(z.string()).describe('`linux/amd64` or `linux/arm64`'),
    buildRepository: optional(z.string()).describe(
      'Where builds and frozen images are pushed: `registry/path`',
    ),
    cacheRepository: optional(z.string()).describe(
      'Where build layers are put; they are taken from there only where the operator trusts all who build',
    ),
    timestamp: optional(z.string()).describe('Submission time, ISO 8601'),
    fingerprint: optional(z.string()).describe('Unique fingerprint of the request'),
    freeze: optional(z.boolean()).describe(
      'Push the image, with all changes in it, to `buildRepository`, under a name for good',
    ),
    platformEndpoint: optional(z.string()).describe('Workflow platform address'),
    platformAccessToken: optional(z.string()).describe('Access token of the platform'),
    platformRefreshToken: optional(z.string()).describe('Refresh token of the platform'),
    platformWorkspaceId: optional(numeric).describe('Workspace of the credentials'),
    format: optional(z.enum(['docker', 'sif'])).describe(
      '`sif`, with `freeze`, for a Singularity image',
    ),
    packages: optional(packagesSchema).describe('Packages to build a container of'),
    nameStrategy: optional(z.enum(['none', 'tagPrefix', 'imageSuffix'])).describe(
      'How the built container is named',
    ),
    buildContext: optional(layerSchema).describe(
      'Files for COPY and ADD, as a tar.gz file; its `.dockerignore` is heeded',
    ),
    dryRun: optional(z.boolean()).describe(
      'Only tell what the request would do, with which credentials',
    ),
    namedContexts: optional(z.record(z.string(), z.string())).describe(
      'Image by the name of an image or stage of the Dockerfile, which it takes the place of: `{"alpine:3.20": "registry.example.com/alpine:3.20"}`',
    ),
  })
  .meta({ title: 'ContainerRequest' });

/** Body of `POST /v1alpha1/inspect`. Source: container service specification, section 2.7. */
export const inspectRequestSchema = z
  .object({
    containerImage: z.string({ error: 'is required' }).min(1, 'is empty'),
    platformEndpoint: optional(z.string()),
    platformAccessToken: optional(z.string()),
    platformWorkspaceId: optional(numeric),
  })
  .meta({ title: 'InspectRequest' });

const filled = z.string({ error: 'is required' }).refine(value => value.trim() !== '', 'is empty');

/** Body of `POST /v1alpha2/validate-creds`. */
export const credentialsSchema = z
  .object({
    registry: filled.describe('Host of the registry'),
    userName: filled,
    password: filled,
  })
  .meta({ title: 'RegistryCredentials' });

/** The body as the schema types it; throws a {@link Fault} (400) that names the field and what is wrong with it. */
export function parseBody<S extends z.ZodType>(schema: S, body: unknown): z.output<S> {
  const result = schema.safeParse(withoutAliases(body));
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const field = (issue?.path ?? [])
    .map(part => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
    .join('')
    .slice(1);
  const what = inWords(issue?.message);
  const subject = field === '' ? 'The body' : `'${field}'`;
  const joint = /^(?:is|has) /.test(what) ? ' ' : ': ';
  throw new Fault('bad-request', `${subject}${joint}${what}`, { phase: 'request' });
}

/** What zod found, as the rest of a sentence on the field. */
function inWords(message = 'is malformed'): string {
  if (message.endsWith('received undefined')) return 'is required';
  return message.replace(/^Invalid (?:input|option): /, '');
}
