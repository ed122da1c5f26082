import type { BringBuilder } from '../../builds/index.ts';
import type { Logger } from '../../foundation/telemetry/index.ts';
import type { Version } from '../../foundation/version.ts';
import type { ServerLock } from '../../storage/rows/postgres/index.ts';
import type { ProxyFor } from '../../upstream/auth/index.ts';
import type { Config } from '../config/index.ts';

/** Dependencies of the parts of the server. */
export interface AppDeps {
  readonly config: Config;
  readonly publicUrl: URL;
  readonly log: Logger;
  readonly version: Version;
  /** The proxies for connections to other hosts. */
  readonly proxyFor: ProxyFor;
  /** Text of a Docker configuration with credentials. */
  readonly dockerAuthConfig?: string | undefined;
  /** Installs a builder when none is found. */
  readonly bringBuilder?: BringBuilder | undefined;
  /** For one of several replicas: it leads, and has the lock of the database. */
  readonly lock?: ServerLock | undefined;
}
