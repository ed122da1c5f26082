import { Readable } from 'node:stream';
import { TarError } from '../../../archives/index.ts';
import { tarEnd } from '../../../archives/tar-writer.ts';
import { BuildError, memoryTree } from '../../../buildkit/index.ts';
import type { MadeStep } from '../../../conda/index.ts';
import { environmentPrefix } from '../../../conda/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import type { Digest } from '../../../oci/digest.ts';
import { type Descriptor, type Document, parseManifest } from '../../../oci/index.ts';
import { mediaTypes } from '../../../oci/media-type.ts';
import type { ContentStore } from '../../../storage/content/index.ts';
import { noSources } from '../closed-sources.ts';
import { onDatingThread } from '../dating/dating-thread.ts';
import { emptyTar } from '../dating/pruned-layer.ts';
import type { PackedLayer } from '../dating/redate-layer.ts';
import {
  type GeneratedBuildDeps,
  type GeneratedRun,
  generatedBuild,
  generatedFault,
} from '../generated-build.ts';
import { type ReceivedImage, receivedDocuments, receiveImage } from '../received-image.ts';
import { programName, scriptDockerfile } from './script-recipe.ts';

/** A run of link scripts. */
export interface ScriptRun extends GeneratedRun {
  /** The manifest of the environment's image. */
  readonly root: Document;
  /** The text of the program that runs them. */
  readonly program: string;
}

/** Has BuildKit run link scripts. Returns what they change in the environment. Throws a `Fault` with their last lines if one fails. */
export type RunScripts = (run: ScriptRun) => Promise<MadeStep>;

export interface RunScriptsDeps extends GeneratedBuildDeps {
  readonly content: ContentStore;
  readonly limits: {
    readonly maxFiles: number;
    readonly maxUnpackedBytes: number;
  };
}

export function createRunScripts(deps: RunScriptsDeps): RunScripts {
  const runOnce = async (run: ScriptRun, image: ReceivedImage, isOffline: boolean) => {
    const { digest, descriptor } = await generatedBuild(deps, run, {
      dockerfile: scriptDockerfile(isOffline),
      context: memoryTree({ [programName]: run.program }),
      sourceRules: [noSources],
      ...(isOffline ? { network: 'none' } : {}),
      exporters: [
        { type: 'oci', blobs: image, attrs: { compression: 'zstd', 'compression-level': '1' } },
      ],
    });
    const mediaType = descriptor?.mediaType ?? mediaTypes.ociManifest;
    return { digest: digest as Digest, mediaType };
  };

  return async run => {
    const { signal, log } = run;
    const ofEnvironment = layersIn(run.root);
    const known = new Set(ofEnvironment.map(({ digest }) => digest));
    await using image = receiveImage(deps.content, digest => known.has(digest));
    const root = await runOnce(run, image, true)
      .catch(error => {
        // Other failures are not of the scripts: the build is repeated as a whole, and no result with a network is kept.
        if (!isFailedStep(error) || signal.aborted) throw error;
        // Some only fetch what their package has not.
        log.write('\nA link script has failed without a network: all run again with one\n');
        return runOnce(run, image, false);
      })
      .catch(error => {
        throw generatedFault(error, 'a link script');
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
