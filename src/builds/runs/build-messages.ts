import type { Announce } from '../../messages/index.ts';
import type { SealedGrant } from '../../platform/index.ts';
import type { BuildOutcome, BuildRow, NewMessage } from '../../storage/rows/index.ts';
import { type BuildPlan, pullName } from '../plan/build-plan.ts';

/** Returns the messages about the end of a build, which are stored with its outcome. */
export type MessagesOf = (
  build: BuildRow,
  outcome: BuildOutcome,
  endedAt: number,
) => readonly NewMessage[];

interface BuildMessagesDeps {
  readonly announce: Announce;
  /** Returns the e-mail address of a caller who wants to know the end of a build. Never throws. */
  readonly mailOf: (grant: SealedGrant | undefined, succeeded: boolean) => string | undefined;
}

export function createMessagesOf({ announce, mailOf }: BuildMessagesDeps): MessagesOf {
  return ({ id, owner, plan: text, grant, createdAt }, outcome, endedAt) => {
    const plan = JSON.parse(text) as BuildPlan;
    const { succeeded } = outcome;
    return announce({
      kind: plan.mirror ? 'mirror.ended' : 'build.ended',
      id,
      owner,
      image: pullName(plan),
      succeeded,
      ...(succeeded ? { digest: outcome.digest } : { reason: outcome.reason }),
      createdAt,
      endedAt,
      mailTo: mailOf((grant ?? undefined) as SealedGrant | undefined, succeeded),
    });
  };
}
