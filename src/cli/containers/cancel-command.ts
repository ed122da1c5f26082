import { type Command, only, type Values } from '../command/command.ts';
import {
  jsonOption,
  serverOption,
  serverVariables,
  tokenVariable,
} from '../command/common-options.ts';
import { print } from '../command/output.ts';
import { remove } from '../server/server-client.ts';

/** The server's response to a cancellation. */
interface CancelResponse {
  readonly cancelled: boolean;
  readonly message: string;
}

/** `sluice cancel`: cancels a build that the caller requested. */
export const cancelCommand: Command = {
  summary: 'Cancel a build that you requested',
  usage: ['BUILD-ID'],
  options: { server: serverOption, json: jsonOption },
  variables: { ...serverVariables, ...tokenVariable },
  exits: { 1: 'The build was not cancelled. The message says why' },

  async run(values, args) {
    const id = only(args, 'BUILD-ID');
    const response = await cancelBuild(values, id);
    print(values, response, response.message);
    return response.cancelled ? 0 : 1;
  },
};

/** Asks the server to cancel a build, as the user of `SLUICE_TOKEN`. Throws `CommandError`. */
export async function cancelBuild(values: Values, id: string): Promise<CancelResponse> {
  return (await remove(values, `/v1alpha1/builds/${encodeURIComponent(id)}`)) as CancelResponse;
}
