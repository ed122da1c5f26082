import { pullName } from '../../builds/plan/build-plan.ts';
import {
  type BuildPlaces,
  localFrozenPaths,
  planBuild,
  type SentContext,
} from '../../builds/plan/index.ts';
import { Fault } from '../../foundation/fault.ts';
import { containerRequestSchema, parseBody } from '../../http/route/index.ts';
import { OciSyntaxError } from '../../oci/naming.ts';
import type { SubmittedLayer } from '../../request/index.ts';
import { changeOf, checkRules } from '../../request/without-server.ts';
import { CommandError, type Values } from '../command/command.ts';
import { print } from '../command/output.ts';
import { serverAddress } from '../server/server-client.ts';
import { ownMachine } from '../server/use-proxies.ts';
import { inOptionWords } from './request-container.ts';
import { measureDirectory } from './source/measure-directory.ts';
import { measureLayer } from './source/measure-layer.ts';
import { buildRequestOf } from './source/source-options.ts';

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
