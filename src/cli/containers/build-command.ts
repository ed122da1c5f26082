import type { Submission } from '../../request/index.ts';
import type { Command, Values } from '../command/command.ts';
import { serverOption, serverVariables, tokenVariable } from '../command/common-options.ts';
import { followExits } from '../command/exit-codes.ts';
import { RefusedError, serverAddress } from '../server/server-client.ts';
import { ownMachine } from '../server/use-proxies.ts';
import { claimOf, claimOptions } from './caller-options.ts';
import { type ImageResponse, imageOptions, printImage } from './image-response.ts';
import { requestContainer } from './request-container.ts';
import {
  type BuildRequest,
  buildRequestOf,
  sourceOptions,
  sourceUsage,
} from './source/source-options.ts';
import { uploadContext } from './source/upload/upload-context.ts';

/** `sluice build`: builds an image and prints the name to pull. */
export const buildCommand: Command = {
  summary: 'Build an image from a Dockerfile or from Conda packages and print the name to pull',
  usage: sourceUsage,
  completes: 'directory',
  options: { ...sourceOptions, ...claimOptions, server: serverOption, ...imageOptions },
  variables: { ...serverVariables, ...tokenVariable },
  exits: followExits,

  async run(values, positionals) {
    const request = await buildRequestOf(values, positionals);
    warnOfPlainHttp(values, request.submission);
    return printImage(values, await ask(values, request));
  },
};

/** Warns before secrets and keys leave this machine for a server without TLS. */
function warnOfPlainHttp(values: Values, { secrets, ssh }: Submission): void {
  const address = serverAddress(values);
  if ((!secrets && !ssh) || !URL.canParse(address)) return;
  const { protocol, hostname, host } = new URL(address);
  if (protocol === 'https:' || ownMachine.includes(hostname)) return;
  console.error(
    `Warning: secrets and SSH keys are sent to ${host} without encryption. Use an https address`,
  );
}

async function ask(
  values: Values,
  { submission, directory }: BuildRequest,
): Promise<ImageResponse> {
  const send = async (buildContext: Submission['buildContext']) =>
    requestContainer(values, {
      ...submission,
      buildContext,
      dryRun: values['dry-run'],
      ...(await claimOf(values)),
      timestamp: new Date().toISOString(),
    });
  const { buildContext } = submission;
  try {
    if (buildContext || !directory) return await send(buildContext);
  } catch (error) {
    // The operator has set a lower limit for contexts inside a request.
    const isTooLarge = error instanceof RefusedError && error.status === 413;
    if (!isTooLarge || !directory) throw error;
  }
  return send(await uploadContext(values, directory));
}
