import { z } from 'zod';
import {
  maxRecipeBase64,
  type SubmittedCompression,
  type SubmittedCondaOptions,
  type SubmittedCranOptions,
  type SubmittedPackages,
  type SubmittedPipOptions,
} from '../../../builds/plan/index.ts';
import type { LayeredConfig } from '../../../images/augment/index.ts';
import { supportedPlatforms } from '../../../oci/naming.ts';
import type { Submission, SubmittedLayer } from '../../../request/index.ts';
import { severities } from '../../../scans/index.ts';
import { mayBeEmpty } from '../../route/json-schema.ts';

/** A schema for every field of a type: the compiler reports a field without a schema, and a schema without a field. */
type SchemaOf<T> = { readonly [Field in keyof T]-?: z.ZodType<T[Field]> };

// Some clients send null for a field that is not set.
const kept = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform(value => value ?? undefined);

// Others send an empty text, whatever the type is, or an object without a value.
const optional = <T extends z.ZodType>(schema: T) =>
  z
    .preprocess(value => (value === '' ? undefined : value), schema.nullish())
    .optional()
    .transform(value => (value === null || isEmpty(value) ? undefined : value))
    .meta({ [mayBeEmpty]: true });

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === '') return true;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every(
    member => member === undefined || (Array.isArray(member) && member.length === 0),
  );
}

/** Maximum number of each kind of entry in a request: far more than any genuine request has. */
const most = {
  /** Packages. */
  entries: 2000,
  channels: 50,
  commands: 500,
  env: 2000,
  /** Words of an entrypoint or a command. */
  words: 1000,
  /** Layers. The operator usually allows fewer, see `layers.maxCount`. */
  layers: 500,
  /** Included images: the limit of the reference service. */
  includes: 10,
  namedContexts: 100,
  buildArgs: 1000,
  labels: 500,
  secrets: 20,
  /** SSH keys of one agent. */
  sshKeys: 20,
} as const;

/** Maximum lengths of texts, in characters. */
const longest = {
  /** One word of a command, or one environment variable: the limit of Linux. */
  word: 128 * 1024,
  /** A secret of a build, base64. */
  secret: 64 * 1024,
  /** A private SSH key, base64. */
  sshKey: 32 * 1024,
  /** An access token. */
  token: 16 * 1024,
  /** A list of package names on one line. */
  line: 8192,
  /** The name of an image, an address, a path. */
  name: 4096,
  /** A keyword or a time. */
  short: 200,
} as const;

const upTo = (length: number) => z.string().max(length, `is longer than ${length} characters`);
const name = upTo(longest.name);
const short = upTo(longest.short);
const recipe = upTo(maxRecipeBase64);
const token = upTo(longest.token);

const wholeNumber = 'expected a whole number, or its digits as a string';
const numeric = z
  .union(
    [z.int(wholeNumber).min(0, wholeNumber), z.string().regex(/^\d{1,15}$/, wholeNumber)],
    wholeNumber,
  )
  .transform(Number);

const withoutNul = (length: number) => upTo(length).regex(/^[^\0]*$/, 'has a NUL character');
const strings = (count: number) =>
  z.array(withoutNul(longest.word)).max(count, `has more than ${count} entries`);

const texts = (count: number) =>
  z.record(z.string(), upTo(longest.word)).meta({ maxProperties: count });

const layerSchema = z.object({
  location: z.string().describe('HTTP URL of a tar.gz file, or `data:` followed by its base64'),
  tarDigest: optional(short).describe('`sha256:` and hex of the tar file'),
  gzipDigest: optional(short).describe('`sha256:` and hex of the tar.gz file'),
  gzipSize: optional(numeric).describe('Size of the tar.gz file in bytes'),
} satisfies SchemaOf<SubmittedLayer>);

const contextSchema = layerSchema.extend({
  // Some clients send an empty object where there is no context.
  location: z
    .string()
    .default('')
    .describe(
      'HTTP URL of a tar.gz file, `data:` followed by its base64, or `oci://` followed by the name of an uploaded context: `oci://HOST/REPOSITORY@DIGEST` (see `/v1alpha1/contexts`)',
    ),
  isFiltered: optional(z.boolean()).describe(
    'True if the client has already excluded files: the server then treats the `.dockerignore` of the context as an ordinary file',
  ),
});

/** Some clients send a context of empty texts where there is none. */
function withoutPlace(context: z.output<typeof contextSchema>) {
  return context.location === '' && isEmpty({ ...context, location: undefined })
    ? undefined
    : context;
}

const configSchema = z
  .object({
    entrypoint: kept(strings(most.words)).describe('Replaces the entrypoint of the image'),
    cmd: kept(strings(most.words)).describe('Replaces the command of the image'),
    env: kept(strings(most.env)).describe('`NAME=value` each, merged into the environment by name'),
    workingDir: kept(withoutNul(longest.name)).describe('Replaces the working directory'),
    layers: optional(z.array(layerSchema).max(most.layers)).describe(
      'Layers put on top of the image; a server allows 20 by default',
    ),
  } satisfies SchemaOf<LayeredConfig<SubmittedLayer>>)
  .describe('`entrypoint`, `cmd` and `env` have at most 1,048,576 characters together');

const condaOptionsSchema = z.object({
  mambaImage: optional(name).describe('Image with the package manager'),
  baseImage: optional(name).describe('Image that the packages are added to'),
  basePackages: kept(upTo(longest.line)).describe('Packages to add to the requested ones'),
  commands: optional(strings(most.commands)).describe(
    'Commands to run in the image after the packages are installed',
  ),
} satisfies SchemaOf<SubmittedCondaOptions>);

const cranOptionsSchema = z.object({
  rImage: optional(name).describe(
    'Image with R that the packages are installed in. Default: `rocker/r-ver`, with the version of R in the lock file',
  ),
  basePackages: kept(upTo(longest.line)).describe(
    'Debian packages to install before, separated by blanks',
  ),
  commands: optional(strings(most.commands)).describe(
    'Commands to run in the image after the packages are installed',
  ),
} satisfies SchemaOf<SubmittedCranOptions>);

const pipOptionsSchema = z.object({
  extras: optional(strings(most.entries)).describe('Extras of the project to install'),
  groups: optional(strings(most.entries)).describe('Dependency groups of the project to install'),
} satisfies SchemaOf<SubmittedPipOptions>);

const packagesSchema = z
  .object({
    type: optional(short).describe('`CONDA`, or `CRAN` for R packages'),
    environment: optional(recipe).describe(
      'Environment file or lock file, base64; for `CRAN` a `renv.lock`',
    ),
    entries: optional(strings(most.entries)).describe('Package names, with or without versions'),
    channels: optional(strings(most.channels)).describe(
      'Conda channels in order of priority; for `CRAN` addresses of repositories. Default: those of the image',
    ),
    condaOpts: optional(condaOptionsSchema).describe('How Conda packages are installed'),
    pixiOpts: optional(condaOptionsSchema.omit({ mambaImage: true })).describe(
      'The same, as clients for pixi send it. Without effect beside `condaOpts`',
    ),
    cranOpts: optional(cranOptionsSchema).describe('How R packages are installed'),
    pipOpts: optional(pipOptionsSchema).describe(
      'Optional parts of a `pyproject.toml`, `uv.lock`, `pylock.toml` or `poetry.lock` in `environment`',
    ),
  } satisfies SchemaOf<SubmittedPackages>)
  .describe('`entries`, `channels` and `commands` have at most 262,144 characters together');

/** Body of `POST /v1alpha2/container`. Source: container service specification, sections 2.1 to 2.3. */
export const containerRequestSchema = z
  .object({
    containerImage: optional(name).describe('Image to serve: `registry/path:tag`'),
    containerFile: optional(recipe).describe(
      'Dockerfile, or with `sif` a Singularity definition file, base64',
    ),
    containerConfig: kept(configSchema).describe('Changes to the image'),
    containerIncludes: optional(z.array(name).max(most.includes)).describe(
      'Images whose files are put on top of the image, in this order and below the layers of `containerConfig`. Their configs are ignored, and files that their layers delete are deleted from them alone',
    ),
    condaFile: optional(recipe).describe(
      'Conda environment file, base64; with `containerFile` the file `conda.yml` of the build context',
    ),
    spackFile: optional(recipe).describe('Deprecated'),
    containerPlatform: optional(short).describe(
      `${supportedPlatforms.map(name => `\`${name}\``).join(', ')}, or several separated by commas`,
    ),
    buildRepository: optional(name).describe(
      'Where builds, copies and frozen images are pushed: `registry/path`',
    ),
    cacheRepository: optional(name).describe(
      'Repository for build layers. Builds read layers from it only if the operator trusts everybody who builds',
    ),
    timestamp: optional(short).describe('Submission time, ISO 8601; kept with the request'),
    fingerprint: optional(name).describe('Unique fingerprint of the request; kept with it'),
    freeze: optional(z.boolean()).describe(
      'Push the image with all changes to `buildRepository`, under a name that does not expire',
    ),
    mirror: optional(z.boolean()).describe(
      'Copy the image as it is, with all platforms, signatures and other referrers, to `buildRepository`, which is a registry or `registry/path`. The copy keeps the path and the tag of the image',
    ),
    defaultRepository: optional(z.boolean()).describe(
      'Where `freeze` has no `buildRepository`: push to the repository that this server has for such images, which is one of the user where the request has an access token. Sent by the command line and the pages',
    ),
    platformEndpoint: optional(name).describe('Workflow platform address'),
    platformAccessToken: optional(token).describe('Access token of the platform'),
    platformRefreshToken: optional(token).describe('Refresh token of the platform'),
    platformWorkspaceId: optional(numeric).describe('Workspace of the credentials'),
    workflowId: optional(short).describe(
      'Run at the platform of the access token: the name is extended while the run is active, and ends after it. Where the platform does not show the run as active, the name has the usual life, and a warning says why',
    ),
    format: optional(z.enum(['docker', 'sif'])).describe(
      '`sif`, with `freeze`, for a Singularity image',
    ),
    packages: optional(packagesSchema).describe('Packages to build a container of'),
    nameStrategy: optional(z.enum(['none', 'tagPrefix', 'imageSuffix'])).describe(
      'How the built container is named',
    ),
    buildContext: optional(contextSchema.transform(withoutPlace)).describe(
      'Files for COPY and ADD, as a tar.gz file or an artifact; its `.dockerignore` is honoured',
    ),
    dryRun: optional(z.boolean()).describe(
      'Report what the request would do, and with which credentials, without doing it',
    ),
    scanMode: optional(z.enum(['none', 'async', 'required'])).describe(
      'Scan the image for known vulnerabilities, where the server has a scanner. `required`: pulls wait for the scan, and are refused if it fails or finds a severity outside of `scanLevels`',
    ),
    scanLevels: optional(z.array(z.enum(severities)).max(severities.length)).describe(
      'Severities that `scanMode: required` accepts. Default: none',
    ),
    namedContexts: optional(
      z.record(z.string(), name).meta({ maxProperties: most.namedContexts }),
    ).describe(
      'Images to use in place of an image or stage of the Dockerfile, by its name: `{"alpine:3.20": "registry.example.com/alpine:3.20"}`',
    ),
    buildArgs: optional(
      z.record(z.string(), z.string()).meta({ maxProperties: most.buildArgs }),
    ).describe(
      'Values of build arguments, by name: an ARG of a Dockerfile, or `{{ NAME }}` in a Singularity definition file',
    ),
    buildTarget: optional(short).describe(
      'Stage of the Dockerfile to build. Default: the last one',
    ),
    labels: optional(texts(most.labels)).describe('Labels of the image that is built'),
    annotations: optional(texts(most.labels)).describe(
      'Annotations of its manifest; not for Singularity images',
    ),
    created: optional(short).describe(
      'Date in the config of the image, ISO 8601. Default: a fixed date, so that the same recipe gives the same digest',
    ),
    noCache: optional(z.boolean()).describe(
      'Run all steps even if the image exists; its name then refers to the new image',
    ),
    secrets: optional(
      z
        .record(
          z.string(),
          z
            .string()
            .max(
              longest.secret,
              'is longer than 65536 characters of base64, which are 48 KiB: fetch a larger file in the step, with a short secret',
            ),
        )
        .meta({ maxProperties: most.secrets }),
    ).describe(
      'Secrets for `RUN --mount=type=secret,id=...`: base64 by id, at most 48 KiB in all. They require `buildRepository`. The server does not store secrets, so a restart of the server fails the build',
    ),
    ssh: optional(
      z
        .record(z.string(), z.array(upTo(longest.sshKey)).max(most.sshKeys))
        .meta({ maxProperties: most.secrets }),
    ).describe(
      'For `RUN --mount=type=ssh,id=...`: private keys, base64, by the id of their agent, which is `default` for a mount without an id. Ed25519, ECDSA or RSA in OpenSSH or PEM format, without a passphrase. Steps can sign with a key, but never see it. As with `secrets`, they require `buildRepository` and are stored nowhere',
    ),
    buildCompression: optional(
      z.object({
        mode: optional(
          z.enum(['gzip', 'zstd', 'estargz'], 'can be gzip, zstd or estargz'),
        ).describe('Default: `gzip`'),
        level: optional(z.int('can be a whole number from 0 to 22').min(0).max(22)).describe(
          '0 to 9 for gzip and estargz, 0 to 22 for zstd. Default for layers of packages: 5, and 3 for zstd. For Singularity images: 1 to 9 for gzip (default: 6), 1 to 22 for zstd (9)',
        ),
        force: optional(z.boolean()).describe(
          'Compress the layers of base images again, too. Default: only for estargz',
        ),
      } satisfies SchemaOf<SubmittedCompression>),
    ).describe(
      'How the layers that a build makes, or the file system of a Singularity image, are compressed. Other images have layers that exist already: they are answered with a warning',
    ),
    noTest: optional(z.boolean()).describe(
      'Do not run the %test of a Singularity definition file at the end of the build',
    ),
  } satisfies SchemaOf<Submission>)
  .meta({ title: 'ContainerRequest' });

/** Body of `POST /v1alpha1/inspect`. Source: container service specification, section 2.7. */
export const inspectRequestSchema = z
  .object({
    containerImage: z
      .string({ error: 'is required' })
      .min(1, 'is empty')
      .max(longest.name, `is longer than ${longest.name} characters`),
    platformEndpoint: optional(name),
    platformAccessToken: optional(token),
    platformWorkspaceId: optional(numeric),
  })
  .meta({ title: 'InspectRequest' });

const filled = z
  .string({ error: 'is required' })
  .max(longest.token, `is longer than ${longest.token} characters`)
  .regex(/\S/, 'is empty');

/** Body of `POST /v1alpha2/validate-creds`. */
export const credentialsSchema = z
  .object({
    registry: filled.describe('Host of the registry'),
    userName: filled,
    password: filled,
  })
  .meta({ title: 'RegistryCredentials' });
