import type { Platform } from '../../../oci/platform.ts';

/** What decides what the variables of FROM stand for, and which stages are needed. */
export interface StageOptions {
  /** Override the defaults of ARG before the first FROM. */
  readonly buildArgs?: Readonly<Record<string, string>>;
  /** What is built for: the value of TARGETPLATFORM and its like. linux/amd64 by default. */
  readonly platform?: Platform;
  /** What the builder runs on: the value of BUILDPLATFORM and its like. As `platform` by default. */
  readonly builderPlatform?: Platform;
  /** The stage that is built: the last one by default. */
  readonly target?: string;
}
