import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type App, createApp } from '../app.ts';
import { ConfigError, loadConfig } from '../config/load.ts';
import { Fault } from '../fault.ts';
import { createLogger, type Logger } from '../telemetry.ts';
import { readVersion } from '../version.ts';

// Longer than the idle time of the load balancers in use, so that it is they who close.
const keepAliveMs = 75_000;

/**
 * Runs the server until SIGTERM or SIGINT: transfers under way may finish within `drainTime`, a second
 * signal ends them. Returns the exit code.
 *
 * @param bringBuilder installs a builder, called when there is none
 */
export async function serve(
  environment: NodeJS.ProcessEnv,
  bringBuilder?: () => Promise<void>,
): Promise<number> {
  let loaded: ReturnType<typeof loadConfig>;
  try {
    loaded = loadConfig(environment);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    console.error(error.message);
    return 2;
  }
  const { config, warnings } = loaded;
  const log = createLogger(config.logLevel);
  for (const warning of warnings) log.warn(warning);
  const server = createServer({
    keepAliveTimeout: keepAliveMs,
    requestTimeout: 0,
    // Whoever offers another protocol in passing gets a usual answer.
    shouldUpgradeCallback: ({ url = '' }) => url.startsWith('/pairing/'),
  });
  try {
    const stopping = untilSignal();
    const publicUrl = new URL(config.url ?? `http://${config.listen}`);
    // Bound first, for a port chosen by the system belongs into the served names. Who comes this early waits.
    const assembled = Promise.withResolvers<RequestListener>();
    const early: RequestListener = async (req, res) => (await assembled.promise)(req, res);
    server.on('request', early);
    const bound = await listen(server, config.listen);
    if (config.url === undefined) publicUrl.port = String(bound.port);
    const app = await createApp({
      config,
      publicUrl,
      log,
      version: readVersion(),
      dockerAuthConfig: environment.DOCKER_AUTH_CONFIG,
      bringBuilder,
    });
    const listener = app.koa.callback();
    server.off('request', early);
    server.on('request', listener);
    server.on('upgrade', (request, socket, head) => {
      if (!app.pairing.handleUpgrade(request, socket, head)) socket.destroy();
    });
    assembled.resolve(listener);
    log.info(
      { url: publicUrl.origin, listen: `${bound.address}:${bound.port}`, data: config.data },
      'ready',
    );
    log.flush();
    await stopping;
    await stop(server, app, config.drainTime, log);
    return 0;
  } catch (error) {
    if (error instanceof ConfigError) console.error(error.message);
    else log.fatal({ err: error }, 'the server cannot run');
    server.closeAllConnections();
    server.close();
    return error instanceof ConfigError ? 2 : 1;
  } finally {
    log.flush();
  }
}

async function listen(server: Server, address: string): Promise<AddressInfo> {
  const colon = address.lastIndexOf(':');
  const host = address.slice(0, colon).replace(/^\[|\]$/g, '');
  server.listen(Number(address.slice(colon + 1)), host);
  try {
    await once(server, 'listening');
  } catch (error) {
    throw new Fault(
      'unavailable',
      `The server cannot listen on ${address}: end what listens there, or name another one with SLUICE_LISTEN`,
      { cause: error },
    );
  }
  return server.address() as AddressInfo;
}

function untilSignal(): Promise<unknown> {
  const aborted = new AbortController();
  const signals = ['SIGTERM', 'SIGINT'] as const;
  return Promise.race(signals.map(name => once(process, name, aborted))).finally(() => {
    aborted.abort();
  });
}

async function stop(server: Server, app: App, drainMs: number, log: Logger): Promise<void> {
  log.info('stopping: new connections are refused, transfers under way go on');
  app.drain();
  const closed = once(server, 'close');
  server.close();
  await Promise.race([closed, sleep(drainMs, undefined, { ref: false }), untilSignal()]);
  server.closeAllConnections();
  await closed;
  await app.close();
  log.info('stopped');
}
