import { pullName } from '../../builds/plan/build-plan.ts';
import { planBuild } from '../../builds/plan/plan.ts';
import { Fault } from '../../foundation/fault.ts';
import { containerRequestSchema, parseBody } from '../../http/api/container/container-schema.ts';
import { OciSyntaxError } from '../../oci/syntax-error.ts';
import { checkRules } from '../../request/rules.ts';
import { changeOf } from '../../request/wanted-change.ts';
import { type Command, CommandError } from '../command.ts';
import { defaultServer, jsonOption } from '../server/server-client.ts';
import { measureLayer } from './source/measure-layer.ts';
import { buildRequestOf, sourceOptions, sourceUsage } from './source/source-options.ts';

/** `sluice name`: tells what a build would be called, without a server. */
export const nameCommand: Command = {
  summary: 'Print the key and the name that a build would have, without a server',
  usage: `name ${sourceUsage}`,
  options: { ...sourceOptions, json: jsonOption },

  async run(values, positionals) {
    const { SLUICE_BUILD_REPOSITORY, SLUICE_URL = defaultServer } = process.env;
    if (!URL.canParse(SLUICE_URL))
      throw new CommandError(`SLUICE_URL: '${SLUICE_URL}' is not a URL`, 2);
    const repository = SLUICE_BUILD_REPOSITORY || `${new URL(SLUICE_URL).host}/builds`;
    const { SLUICE_FREEZE_REPOSITORY: docker, SLUICE_FREEZE_SIF_REPOSITORY: sif = docker } =
      process.env;
    const frozen = { ...(docker ? { docker } : {}), ...(sif ? { sif } : {}) };
    const asked = await buildRequestOf(values, positionals);
    try {
      const submission = parseBody(containerRequestSchema, asked.submission);
      const places = { repository, cache: undefined, frozen };
      checkRules(submission, 'v1alpha2', places);
      const { buildContext, containerConfig, freeze } = submission;
      const context = buildContext && (await measureLayer(buildContext));
      const layers = freeze ? (containerConfig?.layers ?? []) : [];
      const baked = freeze ? changeOf(submission, await Promise.all(layers.map(measureLayer))) : {};
      const plan = planBuild({ ...submission, context }, places, baked);
      const name = pullName(plan);
      console.log(values.json ? JSON.stringify({ key: plan.key, name }) : name);
      return 0;
    } catch (error) {
      if (error instanceof Fault || error instanceof OciSyntaxError)
        throw new CommandError(error.message, 2);
      throw error;
    }
  },
};
