import { z } from 'zod';

const isoTime = z.string().meta({ format: 'date-time' });

/** Response to a container request. Source: container service specification, section 2.4. */
export const containerResponseSchema = z
  .object({
    requestId: z
      .string()
      .describe('Id of this request for `/v1alpha2/container/{requestId}/status`; keep it secret'),
    containerToken: z
      .string()
      .optional()
      .describe(
        'Token of this container request: everybody who has it can pull. Absent with `freeze`',
      ),
    targetImage: z
      .string()
      .describe(
        'Image name to pull; `oras://...` for a Singularity image. With `dryRun` the image behind it',
      ),
    expiration: isoTime.optional().describe('When the token expires. Absent with `freeze`'),
    containerImage: z.string().describe('Full name of the image that is served'),
    digest: z
      .string()
      .optional()
      .describe(
        'Digest of the image. The name stands for this digest as long as the name exists. Absent until the image is built. With `dryRun`: the current digest of the image name in the request',
      ),
    sourceDigest: z
      .string()
      .optional()
      .describe(
        'Digest of the image that the served one is made of: of `containerImage`, or of its image for `containerPlatform`',
      ),
    buildId: z.string().optional().describe('Id of the build of the image, see `/v1alpha1/builds`'),
    cached: z
      .boolean()
      .optional()
      .describe('True if the image exists; false while it is built and after a failed build'),
    freeze: z.boolean().optional(),
    mirror: z.boolean().optional().describe('True for a copy of an image'),
    scanId: z.string().optional().describe('Id of the scan of the image, see `/v1alpha1/scans`'),
    scanUri: z.string().optional().describe('Address of the page of the scan'),
    succeeded: z
      .boolean()
      .optional()
      .describe(
        'True if the image exists. With `dryRun`: true if everything can be pulled and pushed, and built now. Absent while the image is built and after a failed build: the status of the request reports the outcome',
      ),
    reason: z
      .string()
      .optional()
      .describe(
        'Why the build failed; present if the failure is so recent that the server does not retry. With `dryRun`: why the build could not start now, such as a missing builder',
      ),
    warnings: z.array(z.string()).optional().describe('Warnings about an accepted request'),
    registries: z
      .array(
        z.looseObject({
          repository: z.string(),
          credentials: z.object({ name: z.string(), owner: z.string() }).optional(),
          canPull: z.boolean(),
          canPush: z.boolean().optional(),
          problems: z.array(z.string()),
        }),
      )
      .optional()
      .describe(
        'Only with `dryRun`: the rights to each repository, and the credentials that grant them',
      ),
    dryRun: z
      .literal(true)
      .optional()
      .describe('Only with `dryRun`: nothing was built, pushed or stored'),
    key: z.string().optional().describe('Only with `dryRun`: key of the build'),
    containerFile: z
      .string()
      .optional()
      .describe('Only with `dryRun`: text of the Dockerfile that would be built'),
    platforms: z
      .array(z.string())
      .optional()
      .describe('Only with `dryRun`: platforms of the image, each `os/architecture`'),
    solution: z
      .object({
        platforms: z.array(
          z.object({
            platform: z.string(),
            packages: z.array(
              z.object({
                name: z.string(),
                version: z.string(),
                build: z.string(),
                url: z.string(),
                size: z.number().int().optional().describe('Bytes of the archive'),
                cached: z.boolean().describe('True if the layer of the package exists'),
                mustBuild: z
                  .literal(true)
                  .optional()
                  .describe(
                    'A source distribution or a commit, which a builder makes a wheel of first: what it requires is unknown until then. Or a package whose link script a builder runs',
                  ),
              }),
            ),
          }),
        ),
        builderReason: z
          .string()
          .optional()
          .describe('Why BuildKit would make the image; the packages are then unknown'),
      })
      .optional()
      .describe('Only with `dryRun`: Conda packages that would be installed'),
  })
  .meta({ title: 'ContainerAnswer' });

/** Response of the deprecated endpoint. For a frozen image it names the build, because no pull waits for that build. */
export const legacyResponseSchema = containerResponseSchema.partial({ containerImage: true }).meta({
  title: 'ContainerTokenAnswer',
  description:
    'Only `requestId`, `containerToken`, `targetImage`, `expiration` and `warnings`, except with `freeze` or `dryRun`',
});

export const containerStatusSchema = z
  .object({
    id: z.string(),
    status: z.enum(['BUILDING', 'SCANNING', 'DONE']),
    buildId: z.string().optional().describe('Id of the build of the image'),
    mirrorId: z.string().optional().describe('Id of the copy, in place of `buildId`'),
    detailsUri: z
      .string()
      .optional()
      .describe('Address of the page of the build, or of the scan that is required'),
    scanId: z.string().optional().describe('Id of the scan of the image, see `/v1alpha1/scans`'),
    vulnerabilities: z
      .record(z.string(), z.number().int())
      .optional()
      .describe('Number of vulnerabilities by severity; after a scan that is required'),
    succeeded: z.boolean().optional().describe('Absent while it is built'),
    reason: z.string().optional().describe('Why the build failed'),
    creationTime: isoTime,
    duration: z.number().describe('Seconds'),
  })
  .meta({ title: 'ContainerStatus' });

const userSchema = z
  .string()
  .optional()
  .describe('Who requested it with a login; for that person and for administrators');
const requestIpSchema = z
  .string()
  .optional()
  .describe('Address of the caller, or its network; for the same people');

export const containerDetailsSchema = z
  .object({
    id: z.string(),
    token: z.string(),
    expiration: isoTime,
    request: z
      .looseObject({ containerImage: z.string().optional() })
      .describe('What was asked for'),
    buildId: z.string().optional(),
    build: z
      .looseObject({
        buildId: z.string(),
        containerFile: z.string().optional(),
        condaFile: z.string().optional(),
      })
      .optional()
      .describe('The recipe of its build, and where the image is pushed'),
    source: z
      .object({ image: z.string(), digest: z.string().optional() })
      .describe('What that resolved to; for a recipe, the image that was built'),
    served: z.object({ image: z.string(), digest: z.string().optional() }).describe('The result'),
    containerImage: z.string().optional(),
    containerConfig: z.looseObject({}),
    containerFile: z.string().optional(),
    condaFile: z.string().optional(),
    platform: z.string().optional(),
    workspaceId: z.number().optional(),
    workflowId: z.string().optional().describe('Run at the platform, as sent'),
    packages: z
      .looseObject({})
      .optional()
      .describe('As sent, without the environment file, which is `condaFile`'),
    user: userSchema,
    requestIp: requestIpSchema,
    buildRepository: z.string().optional(),
    cacheRepository: z.string().optional(),
    nameStrategy: z.string().optional(),
    format: z.string().optional(),
    freeze: z.boolean().optional(),
    fingerprint: z.string().optional(),
    timestamp: z.string(),
    sourceImage: z.string(),
    sourceDigest: z.string().optional(),
  })
  .loose()
  .meta({ title: 'ContainerDetails' });

/** Source: container service specification, section 2.5. */
export const buildStatusSchema = z
  .object({
    id: z.string(),
    status: z.enum(['PENDING', 'COMPLETED']),
    phase: z.enum(['queued', 'running']).optional().describe('Present until the build is finished'),
    startTime: isoTime,
    duration: z.number().optional().describe('Seconds; present when the build is finished'),
    succeeded: z.boolean().optional().describe('Present when the build is finished'),
  })
  .meta({ title: 'BuildStatus' });

export const buildCancelSchema = z
  .object({
    id: z.string(),
    cancelled: z.boolean(),
    message: z.string().describe('Says whether the build was cancelled, and why if it was not'),
  })
  .meta({ title: 'BuildCancel' });

export const buildDetailsSchema = buildStatusSchema
  .extend({
    buildId: z.string(),
    user: userSchema,
    requestIp: requestIpSchema,
    targetImage: z.string().describe('Where the image is pushed'),
    format: z.enum(['docker', 'sif']),
    file: z.string().optional().describe('URL of the SIF file, for clients without ORAS'),
    containerFile: z
      .string()
      .optional()
      .describe('Text of the Dockerfile; absent for an image that is only changed and copied'),
    dockerFile: z.string().optional().describe('The same as `containerFile`'),
    condaFile: z.string().optional().describe('Conda environment file of the build'),
    exitStatus: z.number().int().optional().describe('0, or 1 for a failed build'),
    platform: z.string().optional().describe('`platforms` as one text'),
    compression: z
      .object({ mode: z.string(), level: z.number().optional(), force: z.boolean().optional() })
      .optional(),
    platforms: z.array(z.string()).optional(),
    digest: z.string().optional(),
    reason: z.string().optional().describe('Why the build failed'),
    waitsFor: z
      .string()
      .optional()
      .describe('What the build waits for; present while it is queued'),
  })
  .meta({ title: 'BuildDetails' });

/** Source: reference service, mirrors. */
export const mirrorDetailsSchema = z
  .object({
    mirrorId: z.string(),
    status: z.enum(['PENDING', 'COMPLETED']),
    sourceImage: z.string().describe('What is copied, by its digest'),
    targetImage: z.string(),
    creationTime: isoTime,
    duration: z.number().optional().describe('Seconds'),
    exitCode: z.number().int().optional().describe('0, or 1 for a failed copy'),
    succeeded: z.boolean().optional(),
    digest: z.string().optional(),
    reason: z.string().optional().describe('Why the copy failed'),
  })
  .meta({ title: 'MirrorDetails' });

/** Source: container service specification, section 2.8. */
export const inspectResponseSchema = z
  .object({
    container: z.looseObject({ imageName: z.string(), digest: z.string() }).optional(),
    index: z.looseObject({ digest: z.string() }).optional().describe('With `platform=all`'),
  })
  .meta({ title: 'InspectAnswer' });

/** Source: container service specification, section 2.9. */
export const metricResponseSchema = z
  .object({
    metric: z.enum(['builds', 'mirrors', 'scans', 'pulls', 'mounted']).optional(),
    count: z.number().int(),
    arch: z.string().optional().describe('The architecture that was asked for'),
    orgs: z.record(z.string(), z.number().int()).optional(),
  })
  .meta({ title: 'MetricAnswer' });

/** Source: container service specification, section 2.6. */
export const serviceInfoSchema = z
  .object({
    serviceInfo: z.object({
      version: z.string(),
      commitId: z.string(),
      apiLevel: z
        .string()
        .describe(
          'Version of Wave whose API this server provides for existing clients; docs/coming-from-wave.md lists the differences',
        ),
    }),
  })
  .meta({ title: 'ServiceInfo' });

export const stateSchema = z.object({ status: z.string() }).meta({ title: 'ServiceState' });

export const locationSchema = z
  .object({ location: z.string().describe('The same as the header') })
  .meta({ title: 'Location' });

export const emptySchema = z.object({}).meta({ title: 'Nothing' });

/** An OpenAPI document. The OpenAPI specification defines its content. */
export const documentSchema = z
  .looseObject({ openapi: z.string(), info: z.looseObject({}), paths: z.looseObject({}) })
  .meta({ title: 'OpenApi' });
