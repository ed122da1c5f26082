import { createHash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { pullName } from '../../builds/plan/build-plan.ts';
import {
  type BuildPlaces,
  localFrozenPaths,
  planBuild,
  type SentContext,
} from '../../builds/plan/index.ts';
import { hashTar } from '../../contexts/hash-tar.ts';
import { Fault } from '../../foundation/fault.ts';
import { containerRequestSchema } from '../../http/api/container/container-schema.ts';
import { parseBody } from '../../http/route/index.ts';
import type { InjectedLayer } from '../../images/augment/index.ts';
import { digestOf } from '../../oci/digest.ts';
import type { Digest } from '../../oci/index.ts';
import { OciSyntaxError } from '../../oci/naming.ts';
import type { SubmittedLayer } from '../../request/index.ts';
import { architectureIn, changeOf, checkRules } from '../../request/without-server.ts';
import { CommandError, print, type Values } from '../command/command.ts';
import { ownMachine, serverAddress, useProxies } from '../server-client.ts';
import { inOptionWords } from './request-container.ts';
import type { ContextDirectory } from './source/packed-context.ts';
import { buildRequestOf } from './source/source-options.ts';
import { cutBlobs, grainOf } from './source/upload-context.ts';

/** Prints the key and the name of a build. Throws {@link CommandError}. */
export async function printName(values: Values, args: readonly string[]): Promise<void> {
  const server = serverAddress(values);
  if (!URL.canParse(server)) {
    throw new CommandError(
      `The address of the server '${server}' is not a URL: write http://HOST:PORT or https://HOST`,
      2,
    );
  }
  const { env } = process;
  const repository = env.SLUICE_BUILD_REPOSITORY || `${new URL(server).host}/builds`;
  const { SLUICE_FREEZE_REPOSITORY: docker, SLUICE_FREEZE_SIF_REPOSITORY: sif = docker } = env;
  const frozen = { ...(docker ? { docker } : {}), ...(sif ? { sif } : {}) };
  const wanted = await buildRequestOf(values, args);
  const { defaultRepository, format = 'docker' } = wanted.submission;
  if (defaultRepository && env.SLUICE_TOKEN && frozen[format] === undefined) {
    throw new CommandError(
      'With SLUICE_TOKEN, the server pushes to a repository of the user, whose name is not known here: specify --push-to, or use sluice build --dry-run',
      2,
    );
  }
  try {
    const { directory } = wanted;
    const submission = parseBody(containerRequestSchema, {
      ...wanted.submission,
      // The name of an uploaded context in a request is unknown here, and is not part of the key.
      ...(directory
        ? { buildContext: { location: 'oci://', isFiltered: directory.isFiltered } }
        : {}),
    });
    const places = { repository, cache: undefined, frozen, local: localPlaces(server) };
    checkRules(submission, 'v1alpha2', places);
    const { buildContext, containerConfig, freeze } = submission;
    const context = directory
      ? await measureDirectory(directory)
      : buildContext && (await measureUrl(buildContext));
    const layers = freeze ? (containerConfig?.layers ?? []) : [];
    const baked = freeze ? changeOf(submission, await Promise.all(layers.map(measureLayer))) : {};
    const plan = planBuild({ ...submission, context }, places, baked);
    const name = pullName(plan);
    print(values, { key: plan.key, name }, name);
  } catch (error) {
    if (error instanceof Fault || error instanceof OciSyntaxError) {
      throw new CommandError(inOptionWords(error.message), 2);
    }
    throw error;
  }
}

/** Returns the repositories for frozen images of a server on this machine, with its default settings. */
function localPlaces(server: string): BuildPlaces['frozen'] {
  const { host, hostname } = new URL(server);
  if (!ownMachine.includes(hostname)) return {};
  const { docker, sif } = localFrozenPaths;
  return { docker: `${host}/${docker}`, sif: `${host}/${sif}` };
}

async function measureUrl(context: SubmittedLayer): Promise<SentContext> {
  const { gzipDigest: digest, tarDigest } = await measureLayer(context);
  return { digest, tarDigest };
}

/**
 * Returns the properties of a context directory as a server computes them. They are the same for every way of sending
 * it.
 */
export async function measureDirectory({
  path,
  entries,
  bytes,
}: ContextDirectory): Promise<SentContext> {
  const hash = createHash('sha256');
  const content = cutBlobs(path, entries, grainOf(bytes));
  await hashTar(entries, content, piece => void hash.update(piece));
  const tarDigest = `sha256:${hash.digest('hex')}` as Digest;
  return { digest: tarDigest, tarDigest };
}

/**
 * Returns the digests and the size of a layer, as the server will compute them. A layer with a URL is downloaded. Throws
 * {@link CommandError}.
 */
async function measureLayer({ location }: SubmittedLayer): Promise<InjectedLayer> {
  const isUrl = /^https?:/i.test(location);
  const gzip = isUrl ? await fetched(location) : inlined(location);
  const architecture = isUrl ? architectureIn(location) : undefined;
  return {
    gzipDigest: digestOf(gzip),
    gzipSize: gzip.length,
    tarDigest: digestOf(unpacked(gzip, isUrl ? location : 'a layer')),
    ...(architecture === undefined ? {} : { architecture }),
  };
}

async function fetched(url: string): Promise<Buffer> {
  useProxies();
  try {
    const response = await fetch(url);
    if (response.ok) return Buffer.from(await response.arrayBuffer());
    throw new Error(`status ${response.status}`);
  } catch (error) {
    throw new CommandError(`Cannot download ${url}: ${(error as Error).message}`);
  }
}

function inlined(location: string): Buffer {
  const [, base64] = /^data:(?:[^,;]*;base64,)?(.*)$/s.exec(location) ?? [];
  if (base64 !== undefined) return Buffer.from(base64, 'base64');
  throw new CommandError(
    "The location of a layer is neither an http(s) URL nor 'data:' followed by base64: specify a directory or a file with --layer to send it",
    2,
  );
}

function unpacked(gzip: Buffer, name: string): Buffer {
  try {
    return gunzipSync(gzip);
  } catch (error) {
    throw new CommandError(
      `${name} is not a gzip file (${(error as Error).message}): pack it with 'tar -czf'`,
      2,
    );
  }
}
