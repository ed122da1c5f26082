import { Readable } from 'node:stream';
import { TarError } from '../../../archives/index.ts';
import { tarEnd } from '../../../archives/tar-writer.ts';
import { BuildError, build, memoryTree } from '../../../buildkit/index.ts';
import type { MadeStep } from '../../../conda/index.ts';
import { environmentPrefix } from '../../../conda/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import type { Digest } from '../../../oci/digest.ts';
import { type Descriptor, type Document, parseManifest } from '../../../oci/index.ts';
import { mediaTypes } from '../../../oci/media-type.ts';
import type { ContentStore } from '../../../storage/content/index.ts';
import { domainHosts, numberedBuild } from '../../builder/build-host.ts';
import type { Builders } from '../../builder/builders.ts';
import type { LabelOf, TrustDomain } from '../../domain.ts';
import type { LogWriter } from '../../logs/build-logs.ts';
import type { StepCount } from '../../logs/run-step.ts';
import { type EnvironmentImage, environmentAt } from '../bases/environment-image.ts';
import { buildFault } from '../build-fault.ts';
import { type BuilderAccess, loginsOf } from '../build-rights.ts';
import { noSources } from '../closed-sources.ts';
import { onDatingThread } from '../dating/dating-thread.ts';
import { emptyTar } from '../dating/pruned-layer.ts';
import type { PackedLayer } from '../dating/redate-layer.ts';
import { type ReceivedImage, receivedDocuments, receiveImage } from '../received-image.ts';
import { recordedProgress } from '../recorded-step.ts';
import { programName, scriptDockerfile } from './script-recipe.ts';

/** A run of link scripts. */
export interface ScriptRun {
  /** The environment. */
  readonly image: Pick<EnvironmentImage, 'name' | 'root'>;
  /** `linux/amd64` */
  readonly platform: string;
  /** The text of the program that runs them. */
  readonly program: string;
  readonly access: BuilderAccess;
  readonly domain: TrustDomain;
  readonly log: LogWriter;
  readonly count: StepCount;
  readonly signal: AbortSignal;
}

/** Has BuildKit run link scripts. Returns what they change in the environment. Throws a `Fault` with their last lines if one fails. */
export type RunScripts = (run: ScriptRun) => Promise<MadeStep>;

export interface RunScriptsDeps {
  readonly builders: Pick<Builders, 'use'>;
  readonly content: ContentStore;
  readonly labelOf: LabelOf;
  readonly limits: {
    readonly maxFiles: number;
    readonly maxUnpackedBytes: number;
  };
}

export function createRunScripts(deps: RunScriptsDeps): RunScripts {
  const runOnce = async (run: ScriptRun, image: ReceivedImage, isOffline: boolean) => {
    const { domain, platform, log, count, signal } = run;
    const progress = recordedProgress(log, count);
    try {
      const { digest, descriptor } = await deps.builders.use(
        { domain, platforms: [platform] },
        signal,
        client =>
          build(
            client,
            {
              dockerfile: scriptDockerfile(isOffline),
              context: memoryTree({ [programName]: run.program }),
              extraHosts: { ...numberedBuild(), ...domainHosts(deps.labelOf(domain.name)) },
              replacedImages: environmentAt(run.image.name),
              sourceRules: [noSources],
              platforms: [platform],
              ...(isOffline ? { network: 'none' as const } : {}),
              ...loginsOf(run.access),
              exporters: [
                {
                  type: 'oci',
                  blobs: image,
                  attrs: { compression: 'zstd', 'compression-level': '1' },
                },
              ],
            },
            { signal, onProgress: progress.onProgress },
          ),
      );
      const mediaType = descriptor?.mediaType ?? mediaTypes.ociManifest;
      return { digest: digest as Digest, mediaType };
    } finally {
      progress.end();
    }
  };

  return async run => {
    const { signal, log } = run;
    const ofEnvironment = layersIn(run.image.root);
    const known = new Set(ofEnvironment.map(({ digest }) => digest));
    await using image = receiveImage(deps.content, digest => known.has(digest));
    const explained = (error: unknown) =>
      error instanceof BuildError
        ? buildFault(error, {
            isGenerated: true,
            partOf: () => ({ name: 'a link script', advice: '' }),
          })
        : error;
    const root = await runOnce(run, image, true)
      .catch(error => {
        // Other failures are not of the scripts: the build is repeated as a whole, and no result with a network is kept.
        if (!isFailedStep(error) || signal.aborted) throw error;
        // Some only fetch what their package has not.
        log.write('\nA link script has failed without a network: all run again with one\n');
        return runOnce(run, image, false);
      })
      .catch(error => {
        throw explained(error);
      });
    const documents = await receivedDocuments(image, root);
    const layers = layersOf(documents, root.digest);
    const [last, ...others] = layers.slice(ofEnvironment.length);
    const isAbove = ofEnvironment.every(({ digest }, at) => layers[at]?.digest === digest);
    const blob = last && image.blob(last.digest);
    if (!isAbove || others.length > 0 || (last && !blob)) {
      throw unusable('is not above those of the packages');
    }
    const packing = /[.+](gzip|zstd)$/.exec(last?.mediaType ?? '')?.[1] as PackedLayer['packing'];
    const changes: PackedLayer = blob
      ? { ...blob, packing }
      : { ...emptyLayer, open: () => Readable.from([Buffer.from(tarEnd)]) };
    const { maxFiles: maxEntries, maxUnpackedBytes: maxBytes } = deps.limits;
    const kept = { below: environmentPrefix.slice(1), maxEntries, maxBytes };
    const bytes = await deps.content.ingest();
    try {
      const tarDigest = await onDatingThread(
        dater => dater.write(changes, { mode: 'gzip', kept }, piece => bytes.write(piece)),
        signal,
      );
      return { bytes, tarDigest, isEmpty: tarDigest === emptyTar };
    } catch (error) {
      await bytes.abort();
      signal.throwIfAborted();
      throw error instanceof TarError ? unusable(error.message) : error;
    }
  };
}

function isFailedStep(error: unknown): boolean {
  return error instanceof BuildError && error.kind === 'exec';
}

const emptyLayer = { size: tarEnd.length, packing: undefined };

/** Returns the layers of the first image of an index, or of the only image. */
function layersOf(documents: ReadonlyMap<Digest, Document>, digest: Digest): readonly Descriptor[] {
  const document = documents.get(digest);
  const manifest = document && parseManifest(document);
  if (manifest?.kind === 'manifest') return manifest.layers;
  const [first] = manifest?.kind === 'index' ? manifest.manifests : [];
  return first ? layersOf(documents, first.digest) : [];
}

function layersIn(document: Document) {
  const manifest = parseManifest(document);
  return manifest.kind === 'manifest' ? manifest.layers : [];
}

function unusable(what: string): Fault {
  return new Fault('bad-request', `The layer that link scripts have made ${what}`, {
    phase: 'build',
  });
}
