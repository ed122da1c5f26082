import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { whyUnreadable } from '../../foundation/text/index.ts';
import type { TlsOptions } from './channel.ts';

/** Paths of PEM files, and the name in the builder's certificate. */
export interface TlsFiles {
  readonly ca: string;
  readonly certificate?: string | undefined;
  readonly key?: string | undefined;
  readonly serverName?: string | undefined;
}

/**
 * Reads the files for the connection to a builder. Throws a `TypeError` that names the file and its fault, and that
 * never contains a part of a file.
 */
export function readTlsFiles({ ca, certificate, key, serverName }: TlsFiles): TlsOptions {
  if ((certificate === undefined) !== (key === undefined)) {
    throw new TypeError("'certificate' and 'key' go together");
  }
  const authority = readText('ca', ca);
  parseCertificate('ca', ca, authority);
  const name = serverName === undefined ? {} : { serverName };
  if (certificate === undefined || key === undefined) return { ca: authority, ...name };
  const [cert, privateKey] = [readText('certificate', certificate), readText('key', key)];
  const parsed = parseCertificate('certificate', certificate, cert);
  if (!parsed.checkPrivateKey(parseKey(key, privateKey))) {
    throw new TypeError(`'key': the file ${key} does not belong to the certificate ${certificate}`);
  }
  return { ca: authority, cert, key: privateKey, ...name };
}

function readText(what: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new TypeError(`'${what}': the file ${path} cannot be read: ${whyUnreadable(error)}`);
  }
}

function parseCertificate(what: string, path: string, text: string): X509Certificate {
  try {
    return new X509Certificate(text);
  } catch {
    throw new TypeError(`'${what}': the file ${path} is not a certificate in PEM form`);
  }
}

function parseKey(path: string, text: string): KeyObject {
  try {
    return createPrivateKey(text);
  } catch {
    throw new TypeError(
      `'key': the file ${path} is not a private key in PEM form without a password`,
    );
  }
}
