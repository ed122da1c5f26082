import { type CommandGroup, configOption, jsonOption, none, only } from '../command/command.ts';

const options = { config: configOption, json: jsonOption };
const variables = {
  SLUICE_DATABASE: 'Address of the database that the replicas share, as for the server',
  SLUICE_CONFIG: 'Configuration file; --config wins',
};

/** `sluice replicas`: the replicas of a site, and which one leads. */
export const replicasCommand: CommandGroup = {
  summary: 'List the replicas of a site, and choose which one leads',
  actions: {
    list: {
      summary: 'List the replicas that are connected to the database, and show which one leads',
      usage: [''],
      options,
      variables,
      async run(values, args) {
        none(args);
        return (await import('./run-replicas.ts')).runReplicasList(values);
      },
    },
    lead: {
      summary: 'Hand the lead over to the replica with this address',
      usage: ['ADDRESS'],
      options,
      variables,
      exits: {
        0: 'The replica leads',
        1: 'The replica does not lead. The message says why, and which one does',
      },
      async run(values, args) {
        const address = only(args, 'ADDRESS');
        return (await import('./run-replicas.ts')).runReplicasLead(values, address);
      },
    },
  },
};
