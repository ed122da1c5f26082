import type { Platform } from '../../../oci/naming.ts';

/** Options that decide the values of variables in FROM, and which stages are required. */
export interface StageOptions {
  /** Override the defaults of ARG before the first FROM. */
  readonly buildArgs?: Readonly<Record<string, string>>;
  /** Target platform: the value of TARGETPLATFORM and related variables. Default: linux/amd64. */
  readonly platform?: Platform;
  /** Platform of the builder: the value of BUILDPLATFORM and related variables. Default: `platform`. */
  readonly builderPlatform?: Platform;
  /** The stage to build. Default: the last one. */
  readonly target?: string;
}
