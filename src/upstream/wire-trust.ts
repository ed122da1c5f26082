import { createSecureContext, type SecureContext } from 'node:tls';

const contexts = new Map<string, SecureContext>();

/**
 * The certificate authorities that a connection trusts: those in the PEM text, or the built-in ones.
 * Made once for each text, because reading all common roots takes milliseconds. There are as many
 * texts as the configuration has.
 */
export function secureContextOf(ca: string | undefined): SecureContext {
  const known = contexts.get(ca ?? '');
  if (known !== undefined) return known;
  const context = createSecureContext(ca === undefined ? {} : { ca });
  contexts.set(ca ?? '', context);
  return context;
}
