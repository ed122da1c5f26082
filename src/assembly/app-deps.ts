import type { BringBuilder } from '../build/find-builders.ts';
import type { Config } from '../config/schema.ts';
import type { Logger } from '../telemetry.ts';
import type { ProxyFor } from '../upstream/proxy.ts';
import type { Version } from '../version.ts';

/** What the server is put together from. */
export interface AppDeps {
  readonly config: Config;
  readonly publicUrl: URL;
  readonly log: Logger;
  readonly version: Version;
  /** The proxies for connections to other hosts. */
  readonly proxyFor: ProxyFor;
  /** Text of a Docker configuration with credentials. */
  readonly dockerAuthConfig?: string | undefined;
  /** Installs a builder, called when there is none. */
  readonly bringBuilder?: BringBuilder | undefined;
}
