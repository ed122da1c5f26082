import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BringBuilder } from '../../builds/builder/find-builders.ts';
import { closeInTurn } from '../../foundation/closing.ts';
import { openLogDestination } from '../../foundation/telemetry/log-destination.ts';
import { createLogger, type Logger } from '../../foundation/telemetry.ts';
import { readVersion } from '../../foundation/version.ts';
import { type App, createApp } from '../app.ts';
import { ConfigError } from '../config/config-error.ts';
import { loadConfig } from '../config/load.ts';
import { publicUrlOf } from '../config/read/public-url.ts';
import { type Entries, holdEntries } from './entries.ts';
import { spreadLastNet } from './last-net.ts';
import { type Listeners, openListeners } from './listeners.ts';

// Time for the last log lines when their reader is slow or gone.
const logMs = 1000;

/**
 * Runs the server until SIGTERM, SIGHUP or SIGINT. It then still serves for `stopDelay`, so that load balancers see that
 * it is not ready (not after SIGINT, which a person sends). Running transfers may finish within `drainTime`. A second
 * signal ends the delay, a third one the transfers. Returns the exit code.
 *
 * @param bringBuilder installs a builder when none is found
 */
export async function serve(
  environment: NodeJS.ProcessEnv,
  bringBuilder?: BringBuilder,
): Promise<number> {
  let loaded: ReturnType<typeof loadConfig>;
  try {
    loaded = loadConfig(environment);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    console.error(error.message);
    return 2;
  }
  const { config, warnings, proxyFor } = loaded;
  const destination = openLogDestination();
  const log = createLogger(config.logLevel, destination);
  for (const warning of warnings) log.warn(warning);
  const entries: Entries[] = [];
  let listeners: Listeners | undefined;
  try {
    const stopping = untilSignal();
    const publicUrl = publicUrlOf(config);
    // The ports are opened first: served names contain a port that the system chose. Early requests wait.
    listeners = await openListeners(config, publicUrl, log, server => {
      entries.push(holdEntries(server, log));
    });
    const bound = listeners.tls ?? listeners.plain;
    if (config.url === undefined) publicUrl.port = String(bound.port);
    const app = await createApp({
      config,
      publicUrl,
      log,
      version: readVersion(),
      proxyFor,
      dockerAuthConfig: environment.DOCKER_AUTH_CONFIG,
      bringBuilder,
    });
    listeners.onRefused(app.noteRefused);
    using _net = spreadLastNet(log);
    const answer = app.koa.callback();
    for (const entry of entries) entry.open(answer, app.pairing);
    log.info(
      {
        url: publicUrl.origin,
        listen: textOf(listeners.plain),
        ...(listeners.tls ? { tls: textOf(listeners.tls) } : {}),
        data: config.data,
      },
      'ready',
    );
    log.flush();
    const signal = await stopping;
    const delayMs = signal === 'SIGINT' ? 0 : config.stopDelay;
    await stop(listeners, app, { delayMs, drainMs: config.drainTime }, log);
    return 0;
  } catch (error) {
    if (error instanceof ConfigError) console.error(error.message);
    else log.fatal({ err: error }, 'the server failed');
    await listeners?.close();
    return error instanceof ConfigError ? 2 : 1;
  } finally {
    await destination.close(logMs);
  }
}

function textOf({ address, port }: AddressInfo): string {
  return `${address}:${port}`;
}

const signals = ['SIGTERM', 'SIGHUP', 'SIGINT'] as const;

/** Resolves with the name of the first signal. */
async function untilSignal(): Promise<(typeof signals)[number]> {
  const { promise, resolve } = Promise.withResolvers<(typeof signals)[number]>();
  for (const name of signals) process.on(name, resolve);
  try {
    return await promise;
  } finally {
    for (const name of signals) process.off(name, resolve);
  }
}

interface StopTimes {
  readonly delayMs: number;
  readonly drainMs: number;
}

async function stop(
  listeners: Listeners,
  app: App,
  { delayMs, drainMs }: StopTimes,
  log: Logger,
): Promise<void> {
  app.drain();
  if (delayMs > 0) {
    log.info({ ms: delayMs }, 'no longer ready: the server stops after the delay');
    log.flush();
    await Promise.race([sleep(delayMs, undefined, { ref: false }), untilSignal()]);
  }
  log.info('stopping: the server refuses new connections and finishes running transfers');
  await Promise.race([
    listeners.finish(),
    sleep(drainMs, undefined, { ref: false }),
    untilSignal(),
  ]);
  await closeInTurn(
    [
      ['listeners', listeners.close],
      ['server', app.close],
    ],
    log,
  );
  log.info('stopped');
}
