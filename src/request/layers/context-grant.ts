import type { RegistryTokens } from '../../hosted/index.ts';
import { contextRepository } from '../../hosted/uploads/index.ts';
import type { AnonymousShare } from '../../storage/rows/index.ts';
import type { Caller } from '../container-request.ts';

/** The right to upload build contexts into a hosted repository. */
export interface ContextGrant {
  /** Host at the beginning of names of hosted images. */
  readonly registry: string;
  readonly repository: string;
  /** Bearer token to pull from the repository and push to it. */
  readonly token: string;
  readonly expiresInSeconds: number;
}

/** Returns the grant of a caller. Throws a `Fault` (429, 507) for a caller whose network has reached its limits. */
export type GrantContexts = (caller: Pick<Caller, 'network' | 'user'>) => Promise<ContextGrant>;

export interface ContextGrantDeps {
  readonly tokens: Pick<RegistryTokens, 'issue' | 'service'>;
  readonly share: Pick<AnonymousShare, 'take'>;
}

const lifeMs = 3_600_000;

export function createGrantContexts({ tokens, share }: ContextGrantDeps): GrantContexts {
  return async caller => {
    (await share.take(caller.network))[Symbol.dispose]();
    const repository = contextRepository(caller);
    const access = [
      { type: 'repository' as const, name: repository, actions: ['pull', 'push'] as const },
    ];
    return {
      registry: tokens.service,
      repository,
      token: await tokens.issue({ access }, lifeMs),
      expiresInSeconds: lifeMs / 1000,
    };
  };
}
