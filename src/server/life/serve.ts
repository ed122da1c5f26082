import type { AddressInfo } from 'node:net';
import { isatty } from 'node:tty';
import type { BringBuilder } from '../../builds/index.ts';
import { Fault } from '../../foundation/fault.ts';
import { createLogger, type Logger, openLogDestination } from '../../foundation/telemetry/index.ts';
import { readVersion } from '../../foundation/version.ts';
import { type Tracing, useTracing } from '../../tracing/traces.ts';
import { createApp } from '../app.ts';
import { type Config, ConfigError, loadConfig, replicaSettings } from '../config/index.ts';
import { publicUrlOf } from '../config/read/index.ts';
import { type Entries, type Entry, holdEntries } from '../entries.ts';
import type { Replica } from '../replicas/replica.ts';
import { type Listeners, openListeners } from './listeners.ts';
import { startFaultOf } from './start-fault.ts';
import { type StopReason, spreadLastNet, stopOn, untilSignal } from './stop-server.ts';
import { terminalLog } from './terminal-log.ts';

const endMs = 3000;
// Time for the last log lines when their reader is slow or gone.
const logMs = 1000;

/**
 * Runs the server until SIGTERM, SIGHUP or SIGINT. It then still serves for `stopDelay`, so that load balancers see that
 * it is not ready (not after SIGINT, which a person sends). Running transfers may finish within `drainTime`. A second
 * signal ends the delay, a third one the transfers. Returns the exit code: 1 for a replica that lost its lead, so that it
 * starts again and follows.
 *
 * @param bring installs a builder when none is found, and uv when it is missing
 */
export async function serve(
  environment: NodeJS.ProcessEnv,
  bring?: { readonly bringBuilder: BringBuilder; readonly bringUv: BringBuilder },
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
  const isText = config.logFormat === 'text' || (config.logFormat === 'auto' && isatty(1));
  const hasColours = isatty(1) && !environment.NO_COLOR;
  const log = createLogger(
    config.logLevel,
    isText ? terminalLog(destination, hasColours) : destination,
  );
  for (const warning of warnings) log.warn(warning);
  const common = { config, log, proxyFor, dockerAuthConfig: environment.DOCKER_AUTH_CONFIG };
  await openTracing(config, log);
  const entries: Entries[] = [];
  let listeners: Listeners | undefined;
  let replica: Replica | undefined;
  try {
    const settings = replicaSettings(config);
    const stopping = untilSignal();
    const publicUrl = publicUrlOf(config);
    // The ports are opened first: served names contain a port that the system chose. Early requests wait.
    listeners = await openListeners(config, publicUrl, log, server => {
      entries.push(holdEntries(server, log));
    });
    const { plain, tls } = listeners;
    if (config.url === undefined) publicUrl.port = String((tls ?? plain).port);
    const openAll = (entry: Entry) => {
      for (const one of entries) one.open(entry);
    };
    const logReady = (more: object = {}) => {
      const addresses = { listen: textOf(plain), ...(tls ? { tls: textOf(tls) } : {}) };
      log.info({ url: publicUrl.origin, ...addresses, data: config.data, ...more }, 'ready');
      destination.flush();
    };
    using net = new DisposableStack();
    if (settings) {
      net.use(spreadLastNet(log));
      // A single server does not need the client of PostgreSQL: 4 MB of memory.
      const { startReplica } = await import('../replicas/replica.ts');
      replica = await startReplica({ ...common, publicUrl }, settings);
      openAll(replica.entry);
      const isFollowing = await replica.follow(stopping, leader => {
        logReady({ leader: leader.origin });
      });
      if (isFollowing) return await stopOn(stopping, listeners, replica, config, log);
    }
    const app = await createApp({
      ...common,
      publicUrl,
      version: readVersion(),
      ...bring,
      lock: await replica?.lock,
    });
    listeners.onRefused(app.noteRefused);
    if (!settings) net.use(spreadLastNet(log));
    const entry: Entry = {
      respond: app.koa.callback(),
      handleUpgrade: app.pairing.handleUpgrade,
    };
    openAll(replica?.admit(entry) ?? entry);
    await replica?.lead({ follow: openAll, release: app.release, takePulls: app.takePulls });
    logReady(settings ? { leader: settings.address.origin } : {});
    const end = replica ? Promise.race([stopping, replica.lost]) : stopping;
    const running = {
      ...app,
      drain(why: StopReason) {
        app.drain(why);
        // It answers as a follower once it has handed the lead over.
        replica?.drain();
      },
      handOver: async () => replica?.giveUpLead(),
      async close() {
        await replica?.keepLead();
        await app.close();
      },
    };
    return await stopOn(end, listeners, running, config, log);
  } catch (thrown) {
    const error = startFaultOf(thrown, config.data);
    if (error instanceof ConfigError) console.error(error.message);
    // The operator can remove the reason of a fault. All else is a defect.
    else if (error instanceof Fault) log.error({ err: error }, 'the server cannot start');
    else log.fatal({ err: error }, 'the server failed');
    await listeners?.close();
    const code = error instanceof ConfigError ? 2 : 1;
    // Connections of a part that is open already must not keep the process from ending: its supervisor waits for that.
    setTimeout(() => process.exit(code), endMs).unref();
    return code;
  } finally {
    await replica?.close();
    await closeTracing();
    await destination.close(logMs);
    // Nor must regular work that waits for an object store. The caller has set the exit code by then.
    setTimeout(() => process.exit(), endMs).unref();
  }
}

function textOf({ address, port }: AddressInfo): string {
  return `${address}:${port}`;
}

// The last spans of a server that stops.
const sendMs = 2000;

let tracing: Tracing | undefined;

/** Begins to record traces, if the configuration names a collector. */
async function openTracing({ traces }: Pick<Config, 'traces'>, log: Logger): Promise<void> {
  const { endpoint, share } = traces;
  if (endpoint === undefined) return;
  // A server without a collector does not load the SDK.
  const { startTracing } = await import('../../tracing/open-telemetry.ts');
  tracing = startTracing({
    endpoint: new URL(endpoint),
    share,
    version: readVersion().version,
    onFailure: err => log.warn({ err }, 'traces cannot be sent to the collector'),
  });
  useTracing(tracing);
}

/** Sends the recorded traces. */
async function closeTracing(): Promise<void> {
  useTracing(undefined);
  await tracing?.close(sendMs);
}
