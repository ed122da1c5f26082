import { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { Fault } from '../../src/foundation/fault.ts';
import { noRemoteHealth } from '../../src/foundation/telemetry/remote-health.ts';
import { createLogger } from '../../src/foundation/telemetry.ts';
import {
  createPlatformClient,
  type PlatformClient,
  type PlatformSettings,
} from '../../src/platform/platforms.ts';
import type { Platform } from '../../src/platform/workflow-platform.ts';
import { type Database, openDatabase } from '../../src/storage/rows/database.ts';
import {
  createPairingStore,
  createTokenPairStore,
} from '../../src/storage/rows/people/platform-rows.ts';
import { createSecretBox } from '../../src/storage/rows/secret-box.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

/** A client of platforms like the server's, with its own data directory. */
export interface PlatformWorld extends AsyncDisposable {
  readonly client: PlatformClient;
  readonly platform: Platform;
  readonly directory: TempDir;
  readonly database: Database;
  /** Everything logged so far. */
  logged(): string;
}

export const usualSettings: PlatformSettings = {
  allow: [],
  aliases: {},
  assumeRoles: false,
  callsPerSecond: 20,
  callsPerHour: 72_000,
  timeout: 20_000,
};

/** A platform in this process that must not be asked. */
export const unaskedPlatform: Platform = {
  user: async () => unasked(),
  credentials: async () => unasked(),
  keys: async () => unasked(),
  run: async () => unasked(),
};

export async function makePlatformWorld(
  settings: Partial<PlatformSettings>,
  own: Platform = unaskedPlatform,
): Promise<PlatformWorld> {
  const directory = await makeTempDir('platform');
  const database = openDatabase(directory.join('sluice.db'));
  let logged = '';
  const sink = new Writable({
    write(chunk, _encoding, done) {
      logged += String(chunk);
      done();
    },
  });
  const client = createPlatformClient({
    settings: { ...usualSettings, ...settings },
    own: { platform: own, address: 'http://127.0.0.1:9090/platform' },
    registries: new Map(),
    responseLifeMs: 30_000,
    connectMs: 20_000,
    idleMs: 20_000,
    tokenPairs: createTokenPairStore(database),
    tokenPairsKeptMs: 3_600_000,
    pairings: createPairingStore(database),
    box: createSecretBox(Buffer.alloc(32, 7)),
    log: createLogger('debug', sink),
    health: noRemoteHealth,
    environment: {},
  });
  return {
    client,
    platform: client.platform,
    directory,
    database,
    logged: () => logged,
    async [Symbol.asyncDispose]() {
      await client.close();
      database.close();
      await directory.remove();
    },
  };
}

/**
 * For `assert.rejects`: matches a fault of the kind, about credentials, whose message matches and contains no secret.
 */
export function isFault(kind: string, message: RegExp, ...secrets: string[]) {
  return (error: unknown) =>
    error instanceof Fault &&
    error.kind === kind &&
    error.phase === 'credentials' &&
    message.test(error.message) &&
    !secrets.some(secret => everythingIn(error).includes(secret)) &&
    !everythingIn(error).includes(fileURLToPath(new URL('../..', import.meta.url)));
}

/** The messages of an error and all its causes, as a log might show them. */
function everythingIn(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return `${error.message} ${JSON.stringify(error)} ${everythingIn(error.cause)}`;
}

function unasked(): never {
  throw new Error('the platform of this process was asked');
}
