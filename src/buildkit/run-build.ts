import { randomUUID } from 'node:crypto';
import { type StatusObject, status } from '@grpc/grpc-js';
import { type BuildResult, resultOf } from './build-result.ts';
import type { BuildkitClient } from './client.ts';
import { BuildError } from './errors/build-error.ts';
import { awayText, failureOfBuild, isCutOff, isServiceError } from './errors/call-error.ts';
import { Stop } from './errors/stop.ts';
import { Control } from './gen/moby/buildkit/v1/control_pb.js';
import { callUnary } from './grpc/rpc.ts';
import type { BuildOptions, BuildRun } from './options.ts';
import { SecretMask } from './progress/secret-mask.ts';
import { shownNames } from './progress/shown-names.ts';
import { watchStatus } from './progress/status-watch.ts';
import { Journal } from './progress/step-journal.ts';
import type { BlobSink } from './session/blob-send.ts';
import type { OpenSink } from './session/file-send.ts';
import { openSession } from './session/session.ts';
import { keyAgent } from './session/ssh/key-agent.ts';
import { socketAgent } from './session/ssh/socket-agent.ts';
import type { SshAgent } from './session/ssh/ssh-agent.ts';
import { solveInput } from './solve-request.ts';

/** Implements `build`. It has its own file because it loads gRPC. */
export async function runBuild(
  client: BuildkitClient,
  options: BuildOptions,
  { signal, timeoutMs, onProgress }: BuildRun,
): Promise<BuildResult> {
  const ref = randomUUID().replaceAll('-', '');
  const { request, trees } = solveInput(options, ref);
  const mask = new SecretMask();
  const secrets = secretsOf(options);
  for (const secret of secrets.values()) mask.add(secret);
  const journal = new Journal();
  const names = shownNames(options.replacedImages);
  const { builds, ready } = await client.open();
  await ready;
  using stop = new Stop([signal, client.closed], timeoutMs, {
    cancelled: 'The build was cancelled',
    timeout: `The build took longer than ${(timeoutMs ?? 0) / 1000} s`,
  });
  stop.signal.throwIfAborted();
  const session = openSession(builds, {
    ...{ trees, secrets, agents: agentsOf(options) },
    credentials: options.credentials ?? (async () => undefined),
    tokens: options.tokens,
    sinks: sinksOf(options),
    blobs: blobSinkOf(options),
    onSecret: secret => mask.add(secret),
  });
  // A builder that lost the session continues for a long time until it needs the session.
  void session.ended.then(end => stop.because(lostSession(end, client.address)));
  const watch = watchStatus(builds, ref, given => {
    const progress = names.progress(given);
    journal.add(progress);
    try {
      onProgress?.(progress);
    } catch (error) {
      stop.because(error);
    }
  });
  try {
    const question = { ...request, Session: session.id };
    const answer = await callUnary(builds, Control.method.solve, question, stop.signal);
    await watch.drained();
    return resultOf(answer.ExporterResponse, journal);
  } catch (error) {
    await watch.drained();
    if (!isServiceError(error)) throw error;
    await mask.prepare();
    error.details = names.text(error.details);
    const explained = failureOfBuild(error, client.address, journal, mask);
    const failure = session.failure();
    const isOurs = failure !== undefined && !['exec', 'unavailable'].includes(explained.kind);
    throw isOurs ? failureOfSession(failure, mask) : explained;
  } finally {
    session.close();
  }
}

function secretsOf({ secrets = {} }: BuildOptions): Map<string, Uint8Array> {
  return new Map(Object.entries(secrets).map(([id, secret]) => [id, Buffer.from(secret)]));
}

function agentsOf({ ssh = {} }: BuildOptions): Map<string, SshAgent> {
  const agents = Object.entries(ssh).map(
    ([id, source]) =>
      [id, 'keys' in source ? keyAgent(source.keys) : socketAgent(source.socket)] as const,
  );
  return new Map(agents);
}

function sinksOf({ exporters = [] }: BuildOptions): Map<number, OpenSink> {
  return new Map(
    exporters.flatMap((exporter, index) => ('sink' in exporter ? [[index, exporter.sink]] : [])),
  );
}

function blobSinkOf({ exporters = [] }: BuildOptions): BlobSink | undefined {
  return exporters.find(exporter => 'blobs' in exporter)?.blobs;
}

function lostSession(end: StatusObject, address: string): BuildError {
  const isAway = end.code === status.UNAVAILABLE || isCutOff(end);
  if (isAway) return new BuildError('unavailable', awayText(address, end));
  const why = end.details === '' ? '' : `: ${end.details}`;
  return new BuildError(
    'session',
    `The builder at ${address} ended the session of the build${why}`,
  );
}

function failureOfSession(failure: unknown, mask: SecretMask): BuildError {
  const message = failure instanceof Error ? failure.message : String(failure);
  return new BuildError('session', `Cannot answer the builder: ${mask.apply(message)}`, {
    cause: failure,
  });
}
