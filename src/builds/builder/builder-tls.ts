import { readTlsFiles, type TlsFiles, type TlsOptions } from '../../buildkit/index.ts';
import type { Logger } from '../../foundation/telemetry/index.ts';
import { parseBuilderName } from './named-builders.ts';

/**
 * Returns the TLS options of the builder with a configured address; undefined for a builder without TLS. Returns the same object
 * until the files change.
 */
export type TlsOf = (address: string) => TlsOptions | undefined;

interface Kept {
  readonly options: TlsOptions;
  readonly readAt: number;
}

// Certificates are replaced while the server runs. An operator expects a new one to be used within this time.
const keptMs = 10_000;

/**
 * Reads the files of builders again when they are old. Reports invalid files and keeps using the last valid content:
 * the files may be in the middle of a replacement.
 */
export function createBuilderTls(files: ReadonlyMap<string, TlsFiles>, log: Logger): TlsOf {
  const kept = new Map<string, Kept>();
  return address => {
    const own = files.get(address);
    if (own === undefined) return undefined;
    const known = kept.get(address);
    const now = performance.now();
    if (known && now - known.readAt < keptMs) return known.options;
    let options: TlsOptions;
    try {
      options = withName(address, readTlsFiles(own));
    } catch (error) {
      if (!known) throw error;
      const { message } = error as Error;
      log.error(
        { builder: address, reason: message },
        'cannot use the changed certificate files of a builder: the previous ones stay in use',
      );
      options = known.options;
    }
    const isSame = known && JSON.stringify(known.options) === JSON.stringify(options);
    if (known && !isSame)
      log.info({ builder: address }, 'the changed certificates of a builder are in use');
    const current = known && isSame ? known.options : options;
    kept.set(address, { options: current, readAt: now });
    return current;
  };
}

/** The builders behind a name have its certificate, not one for their addresses. */
function withName(address: string, options: TlsOptions): TlsOptions {
  const name = parseBuilderName(address);
  return name ? { ...options, serverName: options.serverName ?? name.host } : options;
}
