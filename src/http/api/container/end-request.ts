import type { IncomingMessage } from 'node:http';
import { formatReference } from '../../../oci/reference.ts';
import type { TokenRegistry } from '../../../request/tokens/token-registry.ts';
import type { NoteDeed } from '../../callers/audit-notes.ts';

export interface EndRequestDeps {
  readonly tokens: TokenRegistry;
  readonly noteDeed: NoteDeed;
}

/** Ends a container request for an administrator, and records that. Throws a `Fault` (404) for an unknown token. */
export async function endRequest(
  request: IncomingMessage,
  token: string,
  { tokens, noteDeed }: EndRequestDeps,
): Promise<void> {
  await tokens.revoke(token);
  const { label, image } = await tokens.describe(token);
  noteDeed(request, 'request.end', `${label} of ${formatReference(image)}`);
}
