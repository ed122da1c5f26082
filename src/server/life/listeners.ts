import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server, type ServerOptions } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Fault } from '../../foundation/fault.ts';
import type { Logger } from '../../foundation/telemetry/index.ts';
import {
  type ConnectionLimits,
  createConnections,
  createHostCheck,
  endSlowPeers,
  mayUpgrade,
  type RefusedListener,
  respondToBrokenRequests,
  serveHalfClosed,
} from '../../http/index.ts';
import { type Config, isBehindOthers } from '../config/index.ts';
import { ownHosts, tlsSettings } from '../config/read/index.ts';
import { createTlsServer } from './tls-server.ts';

/** The addresses that the server listens on, and their connections. */
export interface Listeners {
  /** The address for plain HTTP. */
  readonly plain: AddressInfo;
  /** The address for TLS; undefined without TLS. */
  readonly tls: AddressInfo | undefined;
  /** Ends each connection after its next response. */
  drain(): void;
  /**
   * Refuses new connections and ends those without a complete request. Resolves when every request is answered.
   */
  finish(): Promise<void>;
  /** Calls the listener for each refused connection from now on. */
  onRefused(listener: RefusedListener): void;
  /** Ends all connections at once. Resolves when the addresses are free. */
  close(): Promise<void>;
}

// Longer than the idle timeout of common load balancers, so that they close idle connections.
const keepAliveMs = 75_000;
// A silent peer is probed after a minute.
const probeMs = 60_000;
const errorMs = 60_000;

/**
 * Listens on the addresses of the configuration; `attach` is called with each server before it listens.
 * Throws `ConfigError` for unusable certificates, {@link Fault} for an address in use.
 */
export async function openListeners(
  config: Config,
  publicUrl: URL,
  log: Logger,
  attach: (server: Server) => void,
): Promise<Listeners> {
  const { requestTime, stallTime } = config.limits.connections;
  const checkHost = createHostCheck(ownHosts(config, publicUrl));
  const options: ServerOptions = {
    keepAliveTimeout: keepAliveMs,
    headersTimeout: requestTime,
    // Bodies have their own limits. Without `headersTimeout`, 0 would disable the limit for heads too.
    requestTimeout: 0,
    connectionsCheckingInterval: Math.max(1, Math.min(requestTime / 4, 5000)),
    keepAlive: true,
    keepAliveInitialDelay: probeMs,
    // The server refuses such requests itself, with its usual headers.
    requireHostHeader: false,
    // The others are answered like requests without an upgrade, with the reason.
    shouldUpgradeCallback: request =>
      mayUpgrade(request, publicUrl) && checkHost(request) === undefined,
  };
  const settings = tlsSettings(config);
  const secure = settings && createTlsServer(settings, options, log);
  const plainServer = createServer(options);
  const servers = secure ? [plainServer, secure.server] : [plainServer];
  const connections = createConnections(connectionLimits(config, log), log);
  for (const server of servers) {
    connections.guard(server);
    respondToBrokenRequests(server, connections);
    attach(server);
  }
  serveHalfClosed(plainServer);
  const stopWatch = endSlowPeers(connections, stallTime);
  const close = async (): Promise<void> => {
    stopWatch();
    secure?.stop();
    const closed = servers.map(server => new Promise(done => server.close(done)));
    connections.destroy();
    await Promise.all(closed);
  };
  try {
    const plain = await listenOn(plainServer, config.listen, 'SLUICE_LISTEN', log);
    const tls =
      settings && secure
        ? await listenOn(secure.server, settings.listen, 'SLUICE_TLS_LISTEN', log)
        : undefined;
    return {
      plain,
      tls,
      drain: connections.drain,
      async finish() {
        await connections.closeBetween(() => {
          for (const server of servers) server.close();
        });
        await connections.finish();
      },
      onRefused: connections.onRefused,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function connectionLimits(config: Config, log: Logger): ConnectionLimits {
  const { total, perAddress } = config.limits.connections;
  const possible = connectionsOfDescriptors() ?? total;
  if (possible < total / 2) {
    log.warn(
      { connections: possible, configured: total },
      'the limit of open files allows fewer connections than limits.connections.total: raise it (ulimit -n)',
    );
  }
  return {
    total: Math.min(total, possible),
    // All clients behind a proxy or a replica have its address, so requests are counted instead of connections.
    perAddress: isBehindOthers(config) ? undefined : perAddress,
  };
}

async function listenOn(
  server: Server,
  address: string,
  variable: string,
  log: Logger,
): Promise<AddressInfo> {
  const colon = address.lastIndexOf(':');
  const host = address.slice(0, colon).replace(/^\[|\]$/g, '');
  server.listen(Number(address.slice(colon + 1)), host);
  try {
    await once(server, 'listening');
  } catch (error) {
    throw new Fault(
      'unavailable',
      `The server cannot listen on ${address}: ${whyNot(error)}, or set another address with ${variable}`,
      { cause: error },
    );
  }
  logErrors(server, log);
  return server.address() as AddressInfo;
}

function whyNot(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'EACCES') return 'give its user the right to open ports below 1024';
  if (code === 'EADDRNOTAVAIL') return 'give this machine that address';
  return 'stop the process that listens there';
}

/** Logs errors while a connection is accepted, such as too few descriptors. They end that connection only. */
function logErrors(server: Server, log: Logger): void {
  let loggedAt = Number.NEGATIVE_INFINITY;
  server.on('error', err => {
    if (performance.now() - loggedAt < errorMs) return;
    loggedAt = performance.now();
    log.error({ err }, 'cannot accept a connection');
  });
}

/** Descriptors that files, the database, builders and logs require. */
const reservedDescriptors = 64;

/**
 * Returns how many client connections the limit of open files allows; undefined when the system reports no limit. A
 * response may require a second descriptor: a file, or a connection to a registry. Source: proc_pid_limits(5).
 */
function connectionsOfDescriptors(): number | undefined {
  try {
    const line = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'));
    return line ? Math.max(8, Math.floor((Number(line[1]) - reservedDescriptors) / 2)) : undefined;
  } catch {
    return undefined;
  }
}
