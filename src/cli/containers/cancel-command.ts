import { only, print } from '../action.ts';
import type { Command, Values } from '../command.ts';
import { jsonOption, remove, serverOption } from '../server/server-client.ts';

/** What the server answers to the end of a build. */
interface CancelAnswer {
  readonly cancelled: boolean;
  readonly message: string;
}

/** `sluice cancel`: ends a build that the caller has asked for. */
export const cancelCommand: Command = {
  summary: 'Cancel a build that you asked for',
  usage: 'cancel BUILD-ID [options]',
  options: { server: serverOption, json: jsonOption },

  async run(values, args) {
    const id = only(args, 'cancel BUILD-ID [options]');
    const answer = await cancelBuild(values, id);
    print(values, answer, answer.message);
    return answer.cancelled ? 0 : 1;
  },
};

/** Asks the server to end a build, in the right of `SLUICE_TOKEN`. Throws `CommandError`. */
export async function cancelBuild(values: Values, id: string): Promise<CancelAnswer> {
  return (await remove(values, `/v1alpha1/builds/${encodeURIComponent(id)}`)) as CancelAnswer;
}
