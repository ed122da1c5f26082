import { createHash } from 'node:crypto';
import { contextTypes, writeEntries } from '../../../../contexts/index.ts';
import { SingleFlight } from '../../../../foundation/single-flight.ts';
import { mediaTypes } from '../../../../oci/media-type.ts';
import { CommandError, type Values } from '../../../command/command.ts';
import { post, RefusedError, serverAddress } from '../../../server/server-client.ts';
import { claimOf } from '../../caller-options.ts';
import {
  type ContextDirectory,
  contextAdvice,
  type SentContext,
  sizeText,
} from '../packed-context.ts';
import { cutBlobs, grainOf, largestBlob } from './cut-blobs.ts';
import { createRegistryPush, type RegistryPush } from './registry-push.ts';

/** Source: `ContextGrant` of the API. */
interface Grant {
  readonly registry: string;
  readonly repository: string;
  readonly token: string;
}

interface Part {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

const mostAtOnce = 6;
const memoryBytes = 192 * 1024 * 1024;

/**
 * Uploads a build context as an artifact, and returns its name for a request. Sends only blobs that the server does
 * not have, so an interrupted upload resumes. Throws {@link CommandError}.
 */
export async function uploadContext(
  values: Values,
  directory: ContextDirectory,
): Promise<SentContext> {
  const { entries, bytes, isFiltered } = directory;
  const first = await askGrant(values);
  const { registry, repository } = first;
  const push = createRegistryPush({
    server: serverAddress(values),
    repository,
    token: tokensOf(values, first),
  });
  const files = entries.filter(({ kind }) => kind === 'file').length;
  const progress = uploadProgress(process.stderr, { bytes, files });
  try {
    const layers = await pushContent(push, directory, progress.add);
    const list = writeEntries(entries);
    const config = partOf(contextTypes.list, list);
    await push.blob(config.digest, list);
    const manifest = Buffer.from(
      JSON.stringify({
        schemaVersion: 2,
        mediaType: mediaTypes.ociManifest,
        artifactType: contextTypes.artifact,
        config,
        layers,
      }),
    );
    const { digest } = partOf(mediaTypes.ociManifest, manifest);
    await push.manifest(digest, mediaTypes.ociManifest, manifest);
    const location = `oci://${registry}/${repository}@${digest}`;
    progress.end(true);
    return isFiltered ? { location, isFiltered } : { location };
  } catch (error) {
    progress.end(false);
    // Quotas and limits of single blobs.
    const isTooLarge = error instanceof RefusedError && [403, 413, 507].includes(error.status);
    if (!isTooLarge) throw error;
    throw new CommandError(`${error.message}\n${contextAdvice(directory)}`);
  }
}

async function askGrant(values: Values): Promise<Grant> {
  return (await post(values, '/v1alpha1/contexts', await claimOf(values))) as Grant;
}

/** The token of the grant, and a new one when the server refuses it because it has expired. */
function tokensOf(values: Values, { token }: Grant): (isRefused: boolean) => Promise<string> {
  let current = Promise.resolve(token);
  const renewals = new SingleFlight<string>();
  return isRefused => {
    if (isRefused) current = renewals.run(async () => (await askGrant(values)).token);
    return current;
  };
}

/** Pushes the content of all files, some blobs at a time; returns its parts in order. */
async function pushContent(
  push: RegistryPush,
  { path, entries, bytes }: ContextDirectory,
  onDone: (bytes: number, sent: boolean) => void,
): Promise<Part[]> {
  const grain = grainOf(bytes);
  const atOnce = Math.max(2, Math.min(mostAtOnce, Math.floor(memoryBytes / largestBlob(grain))));
  const parts: Part[] = [];
  const pushed = new Map<string, Promise<void>>();
  const running = new Set<Promise<void>>();
  let hasFailed = false;
  for await (const blob of cutBlobs(path, entries, grain)) {
    const part = partOf(contextTypes.content, blob);
    parts.push(part);
    if (pushed.has(part.digest)) {
      onDone(part.size, false);
      continue;
    }
    const work = push.blob(part.digest, blob).then(sent => onDone(part.size, sent));
    pushed.set(part.digest, work);
    const ended = work.then(
      () => void running.delete(ended),
      () => {
        hasFailed = true;
      },
    );
    running.add(ended);
    if (running.size >= atOnce) await Promise.race(running);
    if (hasFailed) break;
  }
  await Promise.all(pushed.values());
  return parts;
}

function partOf(mediaType: string, bytes: Buffer): Part {
  const hex = createHash('sha256').update(bytes).digest('hex');
  return { mediaType, digest: `sha256:${hex}`, size: bytes.length };
}

/** Shows the progress of an upload: in place on a terminal, and elsewhere after its end. */
interface UploadProgress {
  /** Notes that a blob is on the server; `sent` is false for a blob that was there before. */
  add(bytes: number, sent: boolean): void;
  end(succeeded: boolean): void;
}

const redrawMs = 200;

function uploadProgress(
  sink: NodeJS.WriteStream,
  total: { readonly bytes: number; readonly files: number },
): UploadProgress {
  const isLive = sink.isTTY && process.env.TERM !== 'dumb';
  let done = 0;
  let sentBytes = 0;
  let drawnAt = 0;
  const draw = (text: string) => sink.write(`\r\x1b[K${text}`);
  return {
    add(bytes, sent) {
      done += bytes;
      if (sent) sentBytes += bytes;
      if (!isLive || Date.now() - drawnAt < redrawMs) return;
      drawnAt = Date.now();
      const parts = `${sizeText(done)} of ${sizeText(total.bytes)}, ${sizeText(sentBytes)} sent`;
      draw(`Uploading the build context: ${parts}`);
    },
    end(succeeded) {
      if (isLive) draw('');
      if (!succeeded) return;
      const whole = `${sizeText(total.bytes)} in ${total.files} files`;
      sink.write(`Build context: ${whole}, ${sizeText(sentBytes)} sent\n`);
    },
  };
}
