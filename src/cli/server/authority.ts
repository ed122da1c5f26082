import { readFileSync } from 'node:fs';
import tls from 'node:tls';
import { CommandError } from '../command/command.ts';

let trusted: string | undefined;

/**
 * Makes this process trust the certificate authority in the PEM file of `SLUICE_CA`, in addition to the public ones.
 * Throws {@link CommandError} for an unusable file.
 */
export function trustOwnAuthority(): void {
  const path = process.env.SLUICE_CA;
  if (!path || path === trusted) return;
  if (!('setDefaultCACertificates' in tls)) {
    throw new CommandError(
      `SLUICE_CA requires Node 24, and this is Node ${process.versions.node}: set NODE_EXTRA_CA_CERTS=${path} instead`,
      2,
    );
  }
  try {
    tls.setDefaultCACertificates([...tls.getCACertificates('default'), readFileSync(path, 'utf8')]);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CommandError(
      `SLUICE_CA: cannot use ${path} as a PEM file of a certificate (${why})`,
      2,
    );
  }
  trusted = path;
}
