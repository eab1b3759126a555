import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Design, DesignReport, ModelDesign } from '../../../api/schema';
import { compare } from '../../../model/comparison';
import type { DesignModel } from '../../../model/design';
import { inputNode } from '../../../model/graphinputs';
import { openAll, pathBetween, revealed } from '../../../model/layergraph';
import * as places from '../../../model/layerplacement';
import { useSignals } from '../../hooks';
import { LayerGraphView } from '../graph/graphview';
import type { ColourBy } from '../graph/graphappearance';
import { PlacementBar } from './placementbar';
import { Compare } from './placementcompare';
import { DeviceStrip } from './placementdevices';
import { dragToDevice } from './placementdrag';
import { Forecast } from './placementforecast';
import { useRunPlacement, useTree, useWork, Work } from './placementhooks';
import { Legend } from './placementlegend';
import { usePlacementAppearance } from './placementappearance';
import { Properties } from './placementproperties';
import { RunFields } from './placementrun';
import type { PlacementServices } from './placementservices';
import { SourcePicker } from './placementsource';

/** Maximum number of nodes drawn at a time. */
const MOST_SHOWN = 500;
const NOTHING: ReadonlySet<string> = new Set();

export interface PlacementProps {
  model: DesignModel;
  services: PlacementServices;
  trans: TranslationBundle;
}

/** The placement half of the designer: a model's layers as a graph, and the devices on which they are placed. */
export function PlacementView(props: PlacementProps): React.ReactElement {
  const { model, services, trans } = props;
  useSignals(model.changed, model.reportChanged, services.clustersChanged, services.runsChanged);
  const work = useWork();
  const { design } = model;
  const onModel = (made: ModelDesign) => model.edit(trans.__('Model'), draft => places.setModel(draft, made));
  if (!design.model) {
    return (
      <div className="jp-dtf-placement jp-mod-empty">
        <p>{trans.__('A placement defines which layer of a model runs on which device. Choose the model first.')}</p>
        <WorkStatus work={work} trans={trans} />
        {model.canEdit ? (
          <SourcePicker services={services} source={null} work={work} onModel={onModel} onClose={null} trans={trans} />
        ) : (
          <p className="jp-dtf-faint">{trans.__('This document cannot be changed, and has no model.')}</p>
        )}
      </div>
    );
  }
  return <Placing {...props} design={design} made={design.model} work={work} onModel={onModel} />;
}

function Placing(
  props: PlacementProps & {
    design: Design;
    made: ModelDesign;
    work: Work;
    onModel: (model: ModelDesign) => void;
  }
): React.ReactElement {
  const { model, services, trans, design, made, work, onModel } = props;
  const { tree, open, fold, show } = useTree(model, made.graph);
  const [chosen, setChosen] = React.useState<ReadonlySet<string>>(NOTHING);
  const [current, setCurrent] = React.useState<string | null>(null);
  const [goTo, setGoTo] = React.useState<{ node: string } | null>(null);
  const [colourBy, setColourBy] = React.useState<ColourBy>('device');
  const [choosing, setChoosing] = React.useState(false);
  const [picking, setPicking] = React.useState(false);
  const [run, setRun] = React.useState('');
  const [said, setSaid] = React.useState('');
  const host = React.useRef<HTMLDivElement>(null);

  const overlay = useRunPlacement(services, run);
  const ran = overlay.placement;
  const compared = React.useMemo(() => ran && compare(ran.layers, design), [ran, design]);
  const { devices, colours, looks, edges, counts, loads } = usePlacementAppearance({
    tree,
    open,
    design,
    report: model.report,
    colourBy,
    compared
  });
  const selected = React.useMemo(() => new Set([...chosen].filter(id => tree.nodes.has(id))), [tree, chosen]);
  const layers = React.useMemo(() => {
    const indices = new Set([...selected].flatMap(id => tree.nodes.get(id)!.layers));
    return [...indices].sort((a, b) => a - b).map(index => tree.graph.layers[index]!);
  }, [tree, selected]);
  const prediction = model.report?.prediction ?? null;

  const focusGraph = () => host.current?.querySelector<HTMLElement>('[role="tree"]')?.focus({ preventScroll: true });
  const change = (label: string, ids: readonly string[], recipe: (draft: Design) => void) => {
    model.edit(label, recipe);
    setSaid(`${label}: ${ids.length === 1 ? ids[0]! : trans._n('%1 layer', '%1 layers', ids.length)}`);
  };
  const put = (ids: readonly string[], device: string) => {
    const name = places.deviceName(device);
    change(trans.__('Put on %1', name), ids, draft => places.place(draft, ids, device));
  };
  const choose = (device: string) => {
    if (layers.length > 0) {
      if (model.canEdit) {
        put(
          layers.map(layer => layer.id),
          device
        );
      }
    } else {
      const there = tree.graph.layers.filter(layer => places.placesOf(design.placement, layer.id).includes(device));
      setChosen(new Set(there.map(layer => layer.id).filter(id => tree.nodes.has(id))));
    }
    leaveStrip();
  };
  const leaveStrip = () => {
    setChoosing(false);
    focusGraph();
  };
  const reveal = (id: string) => {
    const node = tree.nodes.get(id);
    if (node) {
      show(revealed(node, open));
      setCurrent(id);
      setGoTo({ node: id });
    }
  };
  const revealInput = (number: number) => {
    const id = inputNode(tree, open, number)?.id;
    if (id !== undefined) {
      setChosen(NOTHING); // an input cannot be selected
      setCurrent(id);
      setGoTo({ node: id });
    }
  };
  const ids = layers.map(layer => layer.id);
  const two = [...selected].map(id => tree.nodes.get(id)!);
  return (
    <div
      ref={host}
      className="jp-dtf-placement"
      onKeyDown={event => {
        if ((event.ctrlKey || event.metaKey) && event.key === 'f') {
          event.preventDefault();
          event.stopPropagation();
          host.current?.querySelector<HTMLInputElement>('.jp-dtf-find')?.focus();
        }
      }}
    >
      <PlacementBar
        source={made.source}
        editable={model.canEdit}
        colourBy={colourBy}
        onColourBy={setColourBy}
        onFold={() => fold(new Set([tree.root.id]))}
        onUnfold={() => {
          const all = openAll(tree, MOST_SHOWN);
          fold(all.open);
          setSaid(all.complete ? trans.__('All expanded') : trans.__('Expanded as many blocks as can be drawn'));
        }}
        tree={tree}
        onFound={found => {
          if (found.kind === 'layer') {
            reveal(found.node.id);
            setChosen(new Set([found.node.id]));
          } else {
            revealInput(found.number);
          }
        }}
        onPick={() => setPicking(!picking)}
        services={services}
        design={design}
        run={run}
        onRun={setRun}
        work={work}
        onModel={onModel}
        onPlaced={placement =>
          change(trans.__('Place automatically'), Object.keys(placement.devices), draft => {
            draft.placement = placement;
          })
        }
        onProfiled={calibration =>
          model.edit(trans.__('Profile'), draft => {
            draft.calibration = calibration;
          })
        }
        onCode={() =>
          void services.insertCode().then(where => {
            const said = {
              notebook: trans.__('The design is saved, and the code is in the notebook'),
              clipboard: trans.__('The design is saved. No notebook is open, so the code was copied to the clipboard')
            };
            setSaid(where ? said[where] : trans.__('The design is not saved, and no code was inserted'));
          })
        }
        trans={trans}
      />
      <WorkStatus work={work} trans={trans} />
      {picking && (
        <SourcePicker
          services={services}
          source={made.source}
          work={work}
          onModel={read => {
            onModel(read);
            setPicking(false);
          }}
          onClose={() => setPicking(false)}
          trans={trans}
        />
      )}
      <DeviceStrip
        devices={devices}
        loads={loads}
        counts={counts}
        colours={colours}
        choosing={choosing}
        selected={layers.length}
        onChoose={choose}
        onLeave={leaveStrip}
        trans={trans}
      />
      <div className="jp-dtf-placement-middle">
        <LayerGraphView
          tree={tree}
          open={open}
          onOpen={fold}
          selected={selected}
          onSelected={setChosen}
          current={current}
          onCurrent={setCurrent}
          looks={looks}
          edges={edges}
          onChooseDevice={() => model.canEdit && setChoosing(true)}
          onFind={() => host.current?.querySelector<HTMLInputElement>('.jp-dtf-find')?.focus()}
          onDrag={(nodes, event) => {
            if (model.canEdit) {
              const dragged = [...new Set([...nodes].flatMap(id => tree.nodes.get(id)?.layers ?? []))].map(
                index => tree.graph.layers[index]!.id
              );
              const label = dragged.length === 1 ? dragged[0]! : trans._n('%1 layer', '%1 layers', dragged.length);
              dragToDevice(event, label, device => put(dragged, device));
            }
          }}
          goTo={goTo}
          trans={trans}
        />
        <Properties
          layers={layers}
          design={design}
          devices={devices}
          editable={model.canEdit}
          actions={{
            unplace: () => {
              change(trans.__('Unassign'), ids, draft => places.unplace(draft, ids));
              focusGraph(); // the button is disabled now, and would lose the focus
            },
            pin: pinned =>
              change(pinned ? trans.__('Pin') : trans.__('Unpin'), ids, draft => places.pin(draft, ids, pinned)),
            split: over => change(trans.__('Split'), ids, draft => places.split(draft, ids, over)),
            unsplit: () => {
              change(trans.__('Undo split'), ids, draft => places.unsplit(draft, ids));
              focusGraph(); // the button is gone
            },
            path:
              two.length === 2
                ? () => {
                    const [one, other] = [two[0]!.layers[0]!, two[1]!.layers[0]!];
                    const way = pathBetween(tree, one, other);
                    setChosen(new Set(way.map(index => tree.leaves[index]!.id)));
                    setSaid(trans._n('%1 layer selected', '%1 layers selected', way.length));
                  }
                : null,
            chooseDevice: () => setChoosing(true)
          }}
          trans={trans}
        />
      </div>
      <Legend
        colourBy={colourBy}
        devices={devices}
        colours={colours}
        calibrated={design.calibration !== null}
        trans={trans}
      />
      {made.graph.notes.map(note => (
        <p key={note} className="jp-dtf-note">
          {note}
        </p>
      ))}
      {refusalsOf(model.report).map(message => (
        <p key={message} className="jp-dtf-problem jp-dtf-note">
          {message}
        </p>
      ))}
      <Forecast
        prediction={prediction}
        measured={ran}
        batchSize={design.run.batch_size}
        devices={devices.length}
        colours={colours}
        trans={trans}
      >
        <RunFields
          run={design.run}
          problems={model.report?.problems ?? []}
          editable={model.canEdit}
          onChange={(label, settings) =>
            model.edit(trans.__('Set %1', label), draft => {
              Object.assign(draft.run, settings);
            })
          }
          trans={trans}
        />
      </Forecast>
      {overlay.problem !== '' && <p className="jp-dtf-problem">{overlay.problem}</p>}
      {compared && <Compare compared={compared} onShow={reveal} trans={trans} />}
      <div className="jp-dtf-said" role="status" aria-live="polite">
        {said}
      </div>
    </div>
  );
}

/** Why `fit` would reject the model as it is drawn; problems of a setting are shown at its field instead. */
function refusalsOf(report: DesignReport | null): string[] {
  const said = (report?.problems ?? []).filter(
    ({ level, field }) => level === 'warning' && (field === 'model' || field.startsWith('placement.splits'))
  );
  return [...new Set(said.map(({ message }) => message))];
}

/** Long-running work with a button to cancel it, or why it failed. */
function WorkStatus({ work, trans }: { work: Work; trans: TranslationBundle }): React.ReactElement | null {
  if (work.problem !== '') {
    return (
      <p className="jp-dtf-problem jp-dtf-work" role="alert">
        {work.problem}
      </p>
    );
  }
  return work.title === '' ? null : (
    <p className="jp-dtf-work" role="status">
      <progress aria-label={work.title} /> {work.title}…{' '}
      <button type="button" className="jp-dtf-link" onClick={work.cancel}>
        {trans.__('Cancel')}
      </button>
    </p>
  );
}
