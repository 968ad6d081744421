"""Arabic, as the demo's writer knows it: written from right to left, the verb first.

Rule: nouns are masculine and stand without their article (a pattern writes it), verbs are in the
past tense, third person.
"""

from dedup.lab.demo.site.words import Language, Topic, lines, words

__all__ = ["ARABIC"]

_TOPICS = {
    "politics": Topic(
        nouns=words("""
            وزير برلمان حزب دستور سفير قانون مجلس نائب رئيس ائتلاف ميثاق مرشح ناخب خطاب اقتراع وفد
            حاكم مرسوم مؤتمر بيان اتفاق تصويت مفاوض مستشار"""),
        verbs=words("""
            انتخب رفض أيد عارض وقع أقر عين ناقش عدل ألغى صاغ أدان تبنى حل رشح"""),
        adjectives=words("""
            فدرالي معتدل علني مؤقت محايد شرعي متشدد بلدي دبلوماسي حزبي إقليمي موحد"""),
    ),
    "economy": Topic(
        nouns=words("""
            مصرف سوق مصنع قرض سهم تاجر مستثمر ربح متجر عقد مستودع مورد راتب تضخم دين صندوق عميل
            سعر رصيد مخزون محاسب مزاد دخل إنتاج"""),
        verbs=words("""
            استثمر اشترى باع مول صدر استورد دفع أقرض دقق خفض أجر وظف سدد ربح وزع"""),
        adjectives=words("""
            مربح خاسر باهظ رخيص مستقر فصلي مفلس ضريبي نقدي تنافسي راكد موسمي"""),
    ),
    "science": Topic(
        nouns=words("""
            منظار مختبر كوكب جزيء نجم صاروخ باحث مجهر قمر جين نيزك مدار طيف مفاعل إنزيم تلسكوب
            ليزر عنصر برهان حاسوب معدن مذنب غاز متحف"""),
        verbs=words("""
            رصد قاس أطلق حلل أثبت اكتشف سجل صور حسب فصل اختبر فسر جمع راقب نشر"""),
        adjectives=words("""
            دقيق بعيد نظري كمي مشع مجهري نادر قديم شفاف ذري فلكي مغناطيسي"""),
    ),
    "health": Topic(
        nouns=words("""
            مستشفى طبيب ممرض لقاح مريض دواء فيروس جراح علاج عرض قلب صداع وباء مسعف غذاء ضماد سكر
            عصب جرح نوم صيدلي مرهم ضغط عظم"""),
        verbs=words("""
            عالج شخص لقح عزل عقم زرع وصف فحص ضمد أنقذ خدر سكن وقى أطعم حقن"""),
        adjectives=words("""
            مزمن معد سليم حاد متعب معقم مؤلم سريري وراثي مغذ ضعيف جلدي"""),
    ),
    "nature": Topic(
        nouns=words("""
            نهر وادي جبل بستان مطر سد بحر نخيل طائر حقل إعصار ساحل محصول صقر غزال قمح زيتون جفاف
            بركان شاطئ مزارع جراد كهف ينبوع"""),
        verbs=words("""
            زرع روى حصد أغرق حمى لوث قطع رعى صاد جفف غرس حفر أعاد سمد نقل"""),
        adjectives=words("""
            جاف خصب صخري بري كثيف بارد ساحلي مهدد رملي مائي عذب وعر"""),
    ),
    "culture": Topic(
        nouns=words("""
            شاعر مسرح كتاب رسام مهرجان فيلم لحن معرض ممثل ديوان عود تمثال مخرج جمهور خط ناشر راقص
            مترجم ناقد وتر فنان قصر مخطوط نشيد"""),
        verbs=words("""
            عزف رسم ألف ترجم أخرج أنشد عرض نحت مثل لحن كرم رمم اقتبس زخرف دون"""),
        adjectives=words("""
            شعري مسرحي غنائي شهير تراثي شعبي ساخر جميل غامض حديث ملون خيالي"""),
    ),
}

_STEMS = words("نور سال ران مها رام تال دان هاد كمال جاب سمر فار لين زاه عاد بدر")
_TAILS = words("ان ين ور وم اء يد اش وف ير اس")

ARABIC = Language(
    code="ar",
    direction="rtl",
    space=" ",
    comma="،",
    stop=".",
    topics=_TOPICS,
    noun_phrases=lines("""
        ال{noun} ال{adjective}
        {noun} {adjective}
        {noun} {place}
        هذا ال{noun}
        كل {noun}
        {noun} من {place}
        {noun} {person}
        ذلك ال{noun}
        بعض ال{noun}
        ال{noun} وال{noun}
        {organisation}
        أي {noun} {adjective}
        {number} من {noun}
        نفس ال{noun}
        {noun} آخر"""),
    clauses=lines("""
        {verb} {np} {np}
        {verb} {person} {np} في {place}
        {said} {person} أن {np} {verb} {np}
        لم يكن {np} {adjective}
        قد {verb} {np} {np} {adverb}
        {np} {verb} {np}
        ما {verb} {np} {np} قط
        {verb} {np} مع {np}
        كان {np} قد {verb} {np}
        {adverb} {verb} {np} {np}
        بين {place} و{place} {verb} {np} {np}
        {verb} {organisation} {np} لأجل {np}
        ليس {np} مثل {np}
        {verb} {person} و{person} {np}
        هل {verb} {np} {np} أم {verb} {np}
        من {verb} {np} {verb} {np}
        إن {np} {adjective} عند {np}"""),
    openers=lines("""
        يوم {day}
        في {month}
        منذ {number} أعوام
        قرب {place}
        {adverb}
        بحسب {person}
        رغم {np}
        أما {np}
        خلال {month}
        بفضل {np}"""),
    connectors=words("لأن لكن بينما حيث ثم كما حتى إذ بعدما لذلك"),
    closers=lines("""
        كما {said} {person}
        دون {np}
        نحو {place}
        حتى {day}
        بعد {number} أيام
        {adverb}
        لا {np}"""),
    titles=lines("""
        {person} {verb} {noun} {place}
        {noun} {adjective} {verb} {noun} في {place}
        {organisation}: {noun} {verb} ال{noun}
        من ال{noun} إلى ال{noun} في {place}
        لماذا {verb} {place} ال{noun} ال{adjective}
        {number} من {noun} {verb} {noun} {adjective}"""),
    slots={
        "adverb": words("""
            سرا علنا فجأة مرارا أخيرا بهدوء بسرعة نادرا غالبا بحذر تدريجيا مجددا صراحة عمدا حقا"""),
        "said": words("قال أكد أوضح صرح أعلن ذكر كشف أضاف اعترف زعم شدد"),
        "day": words("الاثنين الثلاثاء الأربعاء الخميس الجمعة السبت الأحد"),
        "month": words("""
            يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر"""),
        "number": words("ثلاثة أربعة خمسة ستة سبعة ثمانية تسعة عشرة عشرين ثلاثين مئة"),
    },
    person_parts=(_STEMS, _TAILS, (" ",), ("ال",), _STEMS, _TAILS),
    place_parts=(words("دير وادي قصر تل رأس عين برج"), (" ",), _STEMS, _TAILS),
    organisation_parts=(words("شركة جمعية مؤسسة هيئة رابطة نقابة"), (" ",), _STEMS, _TAILS),
)
