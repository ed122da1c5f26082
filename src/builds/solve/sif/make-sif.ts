import { mkdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { Fault } from '../../../foundation/fault.ts';
import { sizeText } from '../../../foundation/text.ts';
import { architectureOf } from '../../../images/augment/index.ts';
import { blobsOf, type Documents, imageConfig, type MadeOf } from '../../../images/index.ts';
import type { SifSigner } from '../../../images/sif/definition/index.ts';
import { type ConvertLimits, sifConfig, sifManifest } from '../../../images/sif/index.ts';
import { type ConvertedSif, convertToSif } from '../../../images/sif/making.ts';
import type { Digest } from '../../../oci/digest.ts';
import { type Document, parseLossless, parseManifest } from '../../../oci/index.ts';
import {
  type Architecture,
  architectures,
  knownArchitecture,
  type Reference,
} from '../../../oci/naming.ts';
import { sourceOfBytes } from '../../../storage/content/byte-source.ts';
import { type ContentStore, wholeFile } from '../../../storage/content/index.ts';
import {
  type DiskSpace,
  type SpacePromise,
  unlimitedSpace,
} from '../../../storage/directory/index.ts';
import {
  type Access,
  type PushClient,
  pushingTo,
  type RegistryClient,
} from '../../../upstream/index.ts';
import type { RunStep, StepOutput } from '../../logs/run-step.ts';
import type { SifPlan } from '../../plan/build-plan.ts';
import type { BuildRun } from '../build-run.ts';

/** Settings of the conversion. */
export interface SifSettings extends ConvertLimits {
  /** Signs the file; without it there is no signature. */
  readonly signer?: SifSigner | undefined;
}

export interface MakeSifDeps {
  /** Directory for temporary files; each conversion has its own directory in it. */
  readonly directory: string;
  readonly content: ContentStore;
  readonly documents: Documents;
  readonly registry: RegistryClient;
  readonly pusher: PushClient;
  readonly ownHost: string;
  readonly settings: SifSettings;
  readonly space: DiskSpace;
}

/** The artifact that was pushed. */
export interface PushedSif {
  /** Digest of the artifact's manifest. */
  readonly digest: Digest;
  readonly mediaType: string;
  /** Digest of the SIF file. */
  readonly file: Digest;
}

/** Converts an image into a Singularity image and pushes it as an ORAS artifact. Throws `Fault`. */
export type MakeSif = (
  run: Pick<BuildRun, 'id' | 'signal'> & { readonly step: RunStep },
  made: MadeOf,
  plan: SifPlan,
  target: Access & Pick<Reference, 'tag'>,
) => Promise<PushedSif>;

export function createMakeSif(deps: MakeSifDeps): MakeSif {
  const { documents, pusher, settings, space } = deps;

  const convert = async (
    write: StepOutput['write'],
    { signal }: Pick<BuildRun, 'signal'>,
    made: MadeOf,
    { definition, compression }: SifPlan,
    directory: string,
    disk: SpacePromise,
  ): Promise<ConvertedSif> => {
    await using leases = new AsyncDisposableStack();
    const { image, source } = made;
    const manifest = parseManifest(image.root);
    const config =
      manifest.kind === 'manifest' &&
      (image.generated.get(manifest.config.digest) ??
        (await imageConfig(documents, source, manifest)));
    if (manifest.kind !== 'manifest' || !config) throw noImage(source);
    const blobs = blobsOf(made, deps);
    return await convertToSif(
      {
        layers: manifest.layers,
        config: parseLossless(config.bytes, 'config'),
        architecture: requiredArchitecture(config),
        openLayer: (layer, stop) => blobs.open(layer, stop),
        localPath: async layer =>
          (await blobs.isKept(layer))
            ? leases.use(await deps.content.lease(layer.digest))?.path
            : undefined,
      },
      {
        directory,
        definition,
        compression,
        signal,
        limits: settings,
        disk,
        signer: settings.signer,
        log: write,
      },
    );
  };

  const push = async (
    write: StepOutput['write'],
    { signal }: Pick<BuildRun, 'signal'>,
    { path, size, digest }: ConvertedSif,
    { tag = 'latest', ...repository }: Access & Pick<Reference, 'tag'>,
  ): Promise<PushedSif> => {
    const target = pushingTo(repository);
    const manifest = sifManifest({ digest, size }, `${basename(repository.repository)}.sif`);
    const { bytes } = sifConfig;
    await pusher.putBlob(
      target,
      { digest: sifConfig.digest, size: bytes.length, open: async () => sourceOfBytes(bytes) },
      signal,
    );
    const file = { digest, size, open: async () => wholeFile(path, size) };
    const done = await pusher.putBlob(target, file, signal);
    write(`pushed the SIF file ${digest} (${sizeText(size)}): ${done}`);
    await pusher.putManifest(target, tag, manifest, signal);
    return { digest: manifest.digest, mediaType: manifest.mediaType, file: digest };
  };

  return async (run, image, plan, target) => {
    const directory = join(deps.directory, run.id);
    await rm(directory, { recursive: true, force: true });
    await mkdir(directory, { recursive: true, mode: 0o700 });
    // The directory may be on another disk, where only the limit of the conversion counts.
    const disk = ((await space.has(directory)) ? space : unlimitedSpace).promise(0);
    try {
      const made = await run.step('Make the Singularity image', ({ write }) =>
        convert(write, run, image, plan, directory, disk),
      );
      return await run.step('Push the Singularity image', ({ write }) =>
        push(write, run, made, target),
      );
    } finally {
      disk.end();
      await rm(directory, { recursive: true, force: true });
    }
  };
}

function requiredArchitecture(config: Document): Architecture {
  const architecture = architectureOf(config.bytes);
  const known = knownArchitecture(architecture ?? '');
  if (known !== undefined) return known;
  throw new Fault(
    'bad-request',
    `The image is for ${architecture ?? 'an unknown architecture'}: a Singularity image can be for ${Object.keys(architectures).join(' or ')}`,
    { phase: 'build' },
  );
}

function noImage({ registry, repository }: Access): Fault {
  return new Fault(
    'bad-request',
    `${registry}/${repository} is not an image of one platform, as a Singularity image requires: set 'containerPlatform'`,
    { phase: 'build' },
  );
}
