"""English, as the demo's writer knows it.

Rule: nouns take a regular plural, verbs are transitive and stand in the past tense, which is also
their participle; no word belongs to two topics.
"""

from dedup.lab.demo.site.words import Language, Topic, lines, words

__all__ = ["COLOURS", "ENGLISH"]

_TOPICS = {
    "politics": Topic(
        nouns=words("""
            minister parliament ballot coalition deputy mandate senator treaty caucus amendment
            referendum cabinet envoy lobbyist mayor petition speech campaign voter constituency
            opposition decree summit governor councillor manifesto delegate ambassador chamber
            faction majority motion pledge rally reform sanction"""),
        verbs=words("""
            endorsed vetoed ratified debated appointed elected opposed pledged rejected dissolved
            adjourned nominated lobbied reformed censured canvassed mandated repealed rallied
            proposed"""),
        adjectives=words("""
            partisan federal municipal electoral diplomatic bipartisan constitutional outspoken
            moderate populist provisional sovereign legislative radical incumbent unanimous civic
            contested"""),
    ),
    "justice": Topic(
        nouns=words("""
            judge verdict lawyer witness trial prosecutor defendant jury warrant appeal sentence
            prison burglary fraud detective inspector testimony courtroom bailiff complaint
            offence hearing plaintiff lawsuit settlement inmate patrol sergeant alibi statute
            tribunal confession clerk hostage robber smuggler"""),
        verbs=words("""
            convicted acquitted arrested prosecuted sentenced interrogated pardoned sued charged
            detained testified overturned summoned released cautioned accused investigated
            confiscated exonerated handcuffed"""),
        adjectives=words("""
            guilty innocent criminal lawful forensic lenient corrupt alleged armed judicial fugitive
            notorious unsolved circumstantial suspended confidential severe habitual"""),
    ),
    "economy": Topic(
        nouns=words("""
            bank investor dividend mortgage tariff merger shareholder invoice currency budget
            export factory supplier retailer auction bond auditor pension wage loan subsidy
            warehouse deficit broker creditor franchise market quarter revenue surplus takeover
            trader union customer consumer stake"""),
        verbs=words("""
            invested exported imported financed audited subsidised acquired merged taxed insured
            traded refinanced outsourced borrowed earned purchased liquidated leased recruited
            budgeted"""),
        adjectives=words("""
            fiscal profitable bankrupt solvent wholesale volatile monetary taxable lucrative
            sluggish indebted quarterly competitive seasonal affordable listed speculative
            thrifty"""),
    ),
    "technology": Topic(
        nouns=words("""
            server processor browser password sensor robot satellite battery keyboard algorithm
            database gadget antenna router prototype laptop firmware chip startup developer
            hacker protocol network circuit drone camera smartphone update joystick interface
            microphone transistor simulator module dashboard compiler"""),
        verbs=words("""
            encrypted installed upgraded programmed hacked debugged automated streamed scanned
            digitised uploaded configured patented calibrated soldered rebooted synchronised
            downloaded compressed simulated"""),
        adjectives=words("""
            wireless digital pixelated portable obsolete programmable autonomous
            virtual modular scalable optical embedded experimental cordless interactive analogue
            miniature waterproof"""),
    ),
    "research": Topic(
        nouns=words("""
            telescope molecule axiom laboratory fossil galaxy experiment physicist
            microscope isotope comet crater enzyme genome particle theorem asteroid professor
            equation sample specimen catalyst neutron orbit planet laser chemist reactor
            manuscript grant doctorate nebula magnet spectrum electron meteorite"""),
        verbs=words("""
            measured observed published replicated hypothesised discovered sequenced vaporised
            magnified analysed theorised dated classified photographed excavated irradiated
            modelled estimated refuted catalogued"""),
        adjectives=words("""
            molecular cosmic magnetic microscopic theoretical radioactive genetic quantum lunar
            solar empirical stellar subatomic geological crystalline thermal interstellar
            prehistoric"""),
    ),
    "health": Topic(
        nouns=words("""
            hospital nurse vaccine surgeon clinic patient symptom therapy antibiotic allergy
            pharmacy thermometer virus optician ambulance bandage tumour dentist prescription
            epidemic kidney syringe diet vitamin injury muscle artery fever ward paramedic
            infection tablet scar lung recovery psychologist"""),
        verbs=words("""
            vaccinated diagnosed treated cured prescribed hospitalised operated bandaged
            transplanted screened nursed rehabilitated immunised infected monitored quarantined
            medicated relieved inhaled sterilised"""),
        adjectives=words("""
            chronic contagious surgical dental feverish acute healthy clinical dizzy pregnant
            nutritious sterile painful infectious cardiac feeble preventive mental"""),
    ),
    "nature": Topic(
        nouns=words("""
            river forest glacier fox heron orchard meadow drought storm wetland beaver otter
            volcano reef coastline valley owl stork pesticide farmer tractor harvest hedgehog
            beetle oak seedling landslide flood blizzard lagoon dune moss falcon badger ranger
            hornet"""),
        verbs=words("""
            planted harvested flooded polluted restored irrigated hunted fenced drained watered
            uprooted recycled ploughed pruned grazed reintroduced fertilised logged protected
            rewilded"""),
        adjectives=words("""
            endangered muddy fertile coastal invasive organic arid nocturnal rainy mossy wild
            migratory frozen barren leafy tidal windswept evergreen"""),
    ),
    "travel": Topic(
        nouns=words("""
            airport ferry passport hostel suitcase tourist railway platform rucksack captain
            itinerary harbour lighthouse tram ticket resort caravan voyage hiker compass cabin
            souvenir guidebook pilot runway motorway bridge cyclist commuter carriage sailor
            island timetable passenger junction viaduct"""),
        verbs=words("""
            boarded booked sailed toured cancelled delayed navigated crossed diverted visited
            docked piloted parked embarked departed transported rerouted hailed steered
            explored"""),
        adjectives=words("""
            scenic remote crowded overnight nautical exotic punctual winding picturesque
            transatlantic bumpy foreign spacious direct northern southbound windy idyllic"""),
    ),
    "sport": Topic(
        nouns=words("""
            goalkeeper striker referee tournament marathon stadium trophy coach penalty sprinter
            midfielder medal racket swimmer rower podium hurdle relay wrestler gymnast substitute
            league championship jersey whistle scoreboard defender archer boxer javelin
            supporter fixture knockout paddle umpire velodrome"""),
        verbs=words("""
            scored tackled trained outplayed defeated dribbled coached qualified substituted
            outpaced volleyed blocked kicked cheered lapped disqualified challenged headed
            equalised outscored"""),
        adjectives=words("""
            athletic undefeated sweaty injured aggressive amateur agile offside tireless
            defensive acrobatic sprightly muscular olympic veteran unbeaten sporting
            breathless"""),
    ),
    "culture": Topic(
        nouns=words("""
            museum novelist orchestra gallery sculptor poem premiere theatre violin actor
            ballet painter exhibition curator choir rehearsal screenplay soprano sculpture
            festival comedian costume portrait publisher drummer librarian documentary album
            audience playwright fresco mural anthology encore dancer composer"""),
        verbs=words("""
            painted composed rehearsed staged translated sculpted illustrated narrated performed
            curated sketched dramatised filmed edited recorded premiered choreographed applauded
            adapted exhibited"""),
        adjectives=words("""
            lyrical theatrical baroque literary abstract poetic melodic surreal handwritten
            orchestral satirical operatic vintage acoustic celebrated bohemian romantic
            whimsical"""),
    ),
    "goods": Topic(
        nouns=words("""
            lantern kettle backpack armchair blanket umbrella teapot bookcase hammock wallet
            cushion raincoat toolbox vase mirror stool bucket lampshade basket wheelbarrow handle
            hinge zip buckle lining seam pocket strap lid hook drawer ledge spout fabric varnish
            gasket"""),
        verbs=words("""
            stitched polished folded varnished padded welded packed riveted laced sanded glazed
            knitted lined sealed waxed assembled wrapped hemmed rinsed tightened"""),
        adjectives=words("""
            sturdy washable foldable lightweight rustproof cosy elegant stackable durable quilted
            airtight handmade breathable slim robust glossy adjustable compact"""),
    ),
}

COLOURS = words("""
    amber crimson turquoise ivory charcoal olive lavender copper indigo scarlet emerald sand
    burgundy teal""")

_SYLLABLES = words("""
    ar bel cor dal el fen gar hol is jor kel lun mar nor ol per quin ros sel tor ul ver wen yar zan
    bri cas dro fal gri""")
_ENDINGS = words("ano ek iva ov ström ander ille oni ura eth avo inde orro yk anthe usk")
_GIVEN = words("""
    Ada Bruno Celia Dario Edda Fabian Greta Hanno Ilse Jonas Kaja Levin Mira Nils Odile Pavel Rhea
    Sander Tilda Ulric Vera Wanda Yorick Zelda""")

ENGLISH = Language(
    code="en",
    direction="ltr",
    space=" ",
    comma=",",
    stop=".",
    topics=_TOPICS,
    noun_phrases=lines("""
        the {adjective} {noun}
        a {adjective} {noun}
        {place}’s {noun}
        {adjective} {nouns}
        several {nouns}
        its {noun}
        every {noun}
        {number} {nouns}
        that {noun}
        {person}’s {noun}
        the {noun} of {place}
        no {adjective} {noun}
        most {nouns}
        another {noun}
        their {adjective} {nouns}
        some {nouns}
        each {adjective} {noun}
        one {noun}
        those {nouns}
        a {noun} from {place}
        {nouns} and {nouns}
        {organisation}"""),
    clauses=lines("""
        {np} {verb} {np}
        {person} {verb} {np} in {place}
        {np} had been {verb} by {np}
        {person} {said} that {np} {verb} {np}
        nobody {verb} {np} before {np}
        {np} {adverb} {verb} {np}
        {np} never {verb} {np}
        {organisation} {verb} {np} for {np}
        {np} can be {verb} without {np}
        instead of {np} it {verb} {np}
        with {np} {person} {verb} {np}
        {np} will be {verb} and {verb} again
        {person} {adverb} {verb} {np} under {np}
        what {np} {verb} may be {verb} by {person}
        between {place} and {place} {np} {verb} {np}
        only {np} {verb} {np} at {place}
        {np} must not be {verb} like {np}
        they {verb} {np} against {np}
        {np} also {verb} {np}
        {person} and {person} {verb} {np}
        who {verb} {np} {adverb} {verb} {np}
        {np} {verb} {np} during {np}
        {np} might have {verb} {np}
        it was {person} who {verb} {np}
        we {verb} {np} over {np}
        {adjective} or {adjective}, {np} {verb} {np}"""),
    openers=lines("""
        On {day}
        Last {month}
        After {number} years
        {adverb}
        Near {place}
        By {day} evening
        Once more
        For {np}
        In spite of {np}
        Since {month}
        According to {person}
        To {organisation}"""),
    connectors=words("while because although and but until whereas before since unless so as"),
    closers=lines("""
        {said} {person}
        within {number} days
        across {place}
        despite {np}
        without {np}
        as in {month}
        from {day} on
        not {np}
        beyond {place}
        {adverb}"""),
    titles=lines("""
        {adjective} {noun} {verb} as {place} {verb} {nouns}
        {place} {verb} {adjective} {noun}
        {person}: how {nouns} {verb} {nouns}
        {nouns} {verb} near {place}
        Why {organisation} {verb} {noun} and {noun}
        {number} {nouns} {adverb} {verb} in {place}
        From {noun} to {noun}: {person} {verb} {place}
        No {noun} without {noun}, {said} {person}"""),
    slots={
        "adverb": words("""
            quietly swiftly openly rarely gladly barely twice eventually reportedly suddenly
            carefully repeatedly narrowly briefly firmly oddly patiently secretly steadily
            reluctantly"""),
        "said": words("""
            said explained insisted warned conceded argued recalled hinted declared wrote
            confirmed admitted remarked joked replied"""),
        "day": words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
        "month": words("""
            January February March April May June July August September October November
            December autumn winter spring summer"""),
        "number": words("""
            two three four five six seven eight nine eleven twelve fourteen fifteen twenty
            thirty forty sixty ninety"""),
    },
    person_parts=(_GIVEN, (" ",), tuple(s.capitalize() for s in _SYLLABLES), _SYLLABLES, _ENDINGS),
    place_parts=(
        tuple(s.capitalize() for s in _SYLLABLES),
        _SYLLABLES,
        words("ford wick mouth stead burg haven dale minster by holm worth field"),
    ),
    organisation_parts=(
        tuple(s.capitalize() for s in _SYLLABLES),
        _SYLLABLES,
        words("ex ia on um ara is"),
        (" ",),
        ("& Sons", "Society", "Board", "Institute", "Trust", "Group", "Alliance"),
    ),
)
