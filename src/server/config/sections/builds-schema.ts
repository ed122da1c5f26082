import { z } from 'zod';
import { count, duration, flag, isImageName, list, registryHost, size, timer } from '../units.ts';

/** Settings of builds, and of the builder that Sluice starts. */
export const builds = z.strictObject({
  concurrent: count
    .min(1)
    .default(2)
    .describe(
      'Maximum number of simultaneous builds on all builders together, and of images that are made without a builder',
    ),
  concurrentPerCaller: count
    .min(1)
    .optional()
    .describe(
      'Maximum number of simultaneous builds of one user, or of one address without a login. Default: as many as `concurrent`',
    ),
  concurrentAnonymous: count
    .min(1)
    .optional()
    .describe(
      'Maximum number of simultaneous builds of all callers without a login together; the others are kept for users. Default: one less than `concurrent`, at least 1; all of them on a local server without `access.builds`',
    ),
  timeLimit: duration.prefault('15m').describe('Timeout for a build of a caller without a login'),
  trustedTimeLimit: duration
    .prefault('60m')
    .describe('Timeout for a build of a caller with a login'),
  pullWait: duration
    .prefault('25s')
    .describe(
      'How long a pull waits for a build before it is redirected to itself (at most 9 times)',
    ),
  retryAfter: duration
    .prefault('50s')
    .describe('How long a failed build is reported to the same request before it is built again'),
  keep: duration
    .prefault('30d')
    .describe(
      'How long a finished build and its log are kept; longer while a served image name requires it',
    ),
  keepFailed: duration.prefault('7d').describe('How long a failed build is kept'),
  keepAnonymous: duration
    .prefault('3d')
    .describe('How long a build that was requested without a login is kept'),
  maxWaiting: count
    .min(1)
    .default(1000)
    .describe('Maximum number of running and waiting builds; further builds are refused'),
  maxWaitingPerCaller: count
    .min(1)
    .default(100)
    .describe(
      'Maximum number of running and waiting builds of one user, or of one address without a login',
    ),
  maxWaitingAnonymous: count
    .min(1)
    .optional()
    .describe(
      'Maximum number of running and waiting builds of all callers without a login together. Default: half of `maxWaiting`; all of them on a local server without `access.builds`',
    ),
  trustCaches: flag
    .default(false)
    .describe(
      'Read layers from the `cacheRepository` of a request; steps are found there if a server with the same keys wrote them. A caller who can push there can then change the images of all callers. Enable this only if all callers trust each other',
    ),
  cacheMounts: z
    .enum(['build', 'owner'])
    .default('build')
    .describe(
      'Which builds share the caches of `RUN --mount=type=cache`. `build`: only builds with the same key. `owner`: all builds of one caller with a login; the files that one build leaves there can then change the result of another, so these builds and their images are for this caller only',
    ),
  conda: z
    .enum(['auto', 'native', 'buildkit'])
    .default('auto')
    .describe(
      'What makes images of Conda packages. `auto`: Sluice itself, and BuildKit for requests that require it. `native`: Sluice itself; other requests are rejected. `buildkit`: always BuildKit',
    ),
  uv: z
    .string()
    .min(1)
    .default('auto')
    .describe(
      'Whether packages of pip are installed without a builder, by uv, the program that chooses them. `off`: they require BuildKit. `auto`: by the uv that `npm start` or `npm run uv` has installed, or the first on the PATH. Otherwise the path of uv',
    ),
  syntax: z
    .string()
    .refine(
      text => text === 'declared' || text === 'builder' || isImageName(text),
      'expected declared, builder, or the name of an image',
    )
    .default('declared')
    .describe(
      "Frontend for a Dockerfile with a line such as `# syntax=docker/dockerfile:1`. `declared`: the image in the line, from Docker Hub. `builder`: the builder's own frontend, without a pull. Or the name of an image in another registry; without a tag or digest it gets those of the line",
    ),
  openBuilders: list
    .default([])
    .describe(
      'Your own builders (addresses as in `buildkit`, `*` for all) that also build for callers without a login, if no other caller shares them (see `buildkit`). Build steps can connect to everything that such a builder can connect to. The builder that Sluice starts also builds for these callers if it has its own network',
    ),
  privateHosts: list
    .pipe(z.array(registryHost))
    .default([])
    .describe(
      'Hosts, with a port or for all ports, that the builder that Sluice starts and its build steps may connect to at a private address. Loopback addresses stay closed to build steps',
    ),
  each: z
    .strictObject({
      memory: size
        .optional()
        .describe('Memory of one build. Default: half of the memory of the machine, at most 8 GiB'),
      processes: count
        .min(16)
        .default(2048)
        .describe('Maximum number of processes and threads of one build'),
      processors: z.coerce
        .number('expected a number')
        .min(0.1)
        .optional()
        .describe('Processors of one build, such as 2 or 0.5. Default: all processors'),
      disk: size.prefault('10 GiB').describe('Disk space that one build may write'),
    })
    .prefault({})
    .describe('Limits of each build on the builders that Sluice starts: of all its steps together'),
  builderDisk: size
    .prefault('40 GiB')
    .describe(
      'Disk space of all builders that Sluice starts, including their caches. At most half of the free space',
    ),
});

/** Settings and limits of Singularity images. */
export const sif = z.strictObject({
  mksquashfs: z
    .string()
    .min(1)
    .optional()
    .describe('Has no effect: Sluice writes squashfs file systems itself'),
  signingKey: z
    .string()
    .min(1)
    .optional()
    .describe(
      'File with a private key (PEM, Ed25519 or RSA) that signs Singularity images, for `apptainer verify --key`. Default: images are not signed',
    ),
  stallTimeout: timer.optional().describe('Has no effect, like `sif.mksquashfs`'),
  maxEntries: count
    .min(1)
    .default(5_000_000)
    .describe(
      'Maximum number of files, directories and links in an image that is converted to a Singularity image',
    ),
  maxUnpackedBytes: size
    .prefault('100 GiB')
    .describe('Maximum size of the unpacked layers of such an image'),
  maxScratchBytes: size.prefault('100 GiB').describe('Maximum disk space for one conversion'),
});
