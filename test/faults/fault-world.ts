import assert from 'node:assert/strict';
import { type Sluice, type SluiceOptions, startSluice } from '../world/sluice.ts';
import { type Call, call, type Reply } from './http-client.ts';
import {
  type ScriptedImage,
  type ScriptedUpstream,
  startScriptedUpstream,
} from './scripted-upstream.ts';

export type Mode = 'relay' | 'cache' | 'redirect';

/** A Sluice with one scripted upstream for each way of serving blobs. */
export interface FaultWorld extends AsyncDisposable {
  readonly sluice: Sluice;
  readonly upstreams: Readonly<Record<Mode, ScriptedUpstream>>;
  /** Makes a container request and returns what pulls through it: `pull('manifests/latest')`. */
  serve(
    image: ScriptedImage,
    config?: object,
  ): Promise<(route: string, call?: Call) => Promise<Reply>>;
  /** Sends `POST /v1alpha2/container`, and returns any answer. */
  ask(body: object): Promise<Reply>;
  /** Stops the server and returns its log lines. */
  log(): Promise<LogLine[]>;
}

export interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly requestId?: string;
  readonly path?: string;
  readonly status?: number;
  readonly aborted?: boolean;
  readonly mirror?: string;
  readonly err?: {
    readonly type: string;
    readonly message: string;
    readonly causes?: readonly string[];
  };
}

/** How long the server waits for its upstreams, in ms: enough for a busy machine, and little for a test. */
export const shortMs = { connect: 2000, headers: 1500, idle: 1000, stall: 6000 };

const shortTimeouts = {
  connectTimeout: `${shortMs.connect}ms`,
  headersTimeout: `${shortMs.headers}ms`,
  idleTimeout: `${shortMs.idle}ms`,
  stallTimeout: `${shortMs.stall}ms`,
};

export async function startFaultWorld(
  config: object = {},
  registrySettings: object = {},
  sluiceOptions: Pick<SluiceOptions, 'diskBytes' | 'env'> = {},
): Promise<FaultWorld> {
  const [relay, cache, redirect] = await Promise.all([
    startScriptedUpstream(),
    startScriptedUpstream(),
    startScriptedUpstream(),
  ]);
  const upstreams = { relay, cache, redirect };
  const registries = Object.fromEntries(
    Object.entries(upstreams).map(([blobs, { host }]) => [
      host,
      { plainHttp: true, blobs, ...registrySettings },
    ]),
  );
  const own = 'registries' in config ? (config.registries as object) : {};
  const sluice = await startSluice({
    ...sluiceOptions,
    config: {
      accounts: { admin: 'open sesame' },
      upstream: shortTimeouts,
      ...config,
      // Layers are fetched from them by URL, which requires a separate setting.
      layers: {
        privateHosts: Object.values(upstreams).map(({ host }) => host),
        ...('layers' in config ? (config.layers as object) : {}),
      },
      registries: { ...registries, ...own },
    },
  }).catch(async error => {
    await Promise.all([relay.stop(), cache.stop(), redirect.stop()]);
    throw error;
  });
  const stop = async () => {
    await Promise.all([sluice.stop(), relay.stop(), cache.stop(), redirect.stop()]);
  };
  return {
    sluice,
    upstreams,
    ask: body => postJson(`${sluice.url}/v1alpha2/container`, body),
    async serve(image, containerConfig) {
      const { targetImage } = await sluice.request({
        containerImage: image.name,
        ...(containerConfig ? { containerConfig } : {}),
      });
      return (route, options) => call(sluice.at(targetImage, route), options);
    },
    async log() {
      await sluice.stop();
      const { exitCode, signalCode } = sluice.process;
      const isGood = exitCode === 0 && signalCode === null;
      assert.ok(isGood, `the server ended with ${exitCode ?? signalCode}:\n${sluice.output()}`);
      return readLog(sluice.output());
    },
    [Symbol.asyncDispose]: stop,
  };
}

export function postJson(url: string, body: unknown): Promise<Reply> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return call(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) },
    body: text,
  });
}

export function readLog(output: string): LogLine[] {
  return output
    .split('\n')
    .filter(line => line.startsWith('{'))
    .map(line => JSON.parse(line));
}

/** Checks that each id has an error line in the log, and that there are no unexpected errors. */
export function assertLogged(lines: readonly LogLine[], ids: Iterable<string>): void {
  for (const id of ids) {
    const line = lines.find(({ requestId, msg }) => requestId === id && msg === 'request');
    assert.ok(line?.err, `the log has the reason why request ${id} failed`);
  }
  assert.deepEqual(
    lines.filter(({ msg }) => msg === 'unexpected error'),
    [],
  );
}

/** Stops the server. It must not have logged an error: a bad request is not an error. */
export async function stopWithoutErrors({ sluice }: FaultWorld): Promise<void> {
  await sluice.stop();
  const errors = readLog(sluice.output()).filter(({ level }) => level === 'error');
  assert.deepEqual(errors, [], 'a bad request is not an error of the service');
}
