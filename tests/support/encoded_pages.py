"""A page in many languages, each in the encodings it is met in."""

import oracle

# One text of a clock in a harbour, in the languages that are met in encodings of their own.
TEXTS = {
    "arabic": """بعد تسعة عشر عاما من الصمت دقت ساعة الميناء من جديد عند الظهر. وقف الناس في السوق ورفعوا
        رؤوسهم إلى البرج القديم. قال الحارس إن العقارب تتحرك الآن كما كانت تتحرك في طفولته.""",
    "bulgarian": """След деветнадесет години мълчание часовникът на пристанището удари отново по обяд. Хората
        на пазара спряха и вдигнаха глави към старата кула. Пазачът каза, че стрелките пак се движат.""",
    "chinese": """沉默了十九年以后，港口的大钟在中午重新敲响。市场里的人们停下脚步，抬头望着古老的塔楼。
        看守人说，指针又像他小时候那样走动了，他每天早晨都要爬上去给它上发条。""",
    "chinese, traditional": """沉默了十九年以後，港口的大鐘在中午重新敲響。市場裡的人們停下腳步，抬頭望著古老的
        塔樓。看守人說，指針又像他小時候那樣走動了，他每天早晨都要爬上去給它上發條。""",
    "czech": """Po devatenácti letech ticha odbily přístavní hodiny znovu poledne. Lidé na tržišti se zastavili
        a zvedli hlavy ke staré věži. Hlídač řekl, že se ručičky pohybují jako v jeho dětství.""",
    "english": """After nineteen years of silence the harbour clock struck noon again. \u201cNobody believed
        it,\u201d said the keeper \u2013 he\u2019d wound it every morning \u2013 \u201cuntil they heard it.\u201d""",
    "french": """Après dix-neuf années de silence, l\u2019horloge du port a de nouveau sonné midi. Les gens du
        marché se sont arrêtés et ont levé la tête. À l\u2019été, dit le gardien, tout sera réparé.""",
    "german": """Nach neunzehn Jahren schlug die Uhr am Hafen wieder zwölf. Die Leute auf dem Markt blieben
        stehen und blickten hinauf. Früher, erzählte der Wärter, hörte man sie über die Dächer.""",
    "greek": """Μετά από δεκαεννέα χρόνια σιωπής το ρολόι του λιμανιού χτύπησε ξανά μεσημέρι. Ο κόσμος στην
        αγορά σταμάτησε και σήκωσε το κεφάλι προς τον παλιό πύργο. Οι δείκτες κινούνται πάλι.""",
    "hebrew": """אחרי תשע עשרה שנים של שתיקה צלצל שעון הנמל שוב בצהריים. האנשים בשוק נעצרו והרימו את הראש אל
        המגדל הישן. השומר אמר שהמחוגים זזים עכשיו כמו בימי ילדותו, והוא מותח אותו בכל בוקר.""",
    "hungarian": """Tizenkilenc év csend után a kikötői óra újra elütötte a delet. Az emberek a piacon megálltak,
        és felnéztek a régi toronyra. Az őr szerint a mutatók úgy járnak, mint gyerekkorában, hűvös szélben,
        esős időben is; ő húzza fel őket minden reggel.""",
    "japanese": """十九年の沈黙の後、港の時計が正午に再び鳴った。市場の人々は足を止め、古い塔を見上げた。
        番人によると、針は子供の頃と同じように動いているそうだ。彼は毎朝ねじを巻いている。""",
    "korean": """십구 년의 침묵 끝에 항구의 시계가 정오에 다시 울렸다. 시장 사람들은 걸음을 멈추고 오래된 탑을
        올려다보았다. 관리인은 바늘이 어린 시절처럼 다시 움직인다고 말했다.""",
    "polish": """Po dziewiętnastu latach ciszy zegar w porcie znów wybił południe. Ludzie na targu zatrzymali się
        i podnieśli głowy ku starej wieży. Strażnik mówi, że wskazówki poruszają się jak dawniej.""",
    "russian": """После девятнадцати лет молчания портовые часы снова пробили полдень. Люди на рынке
        остановились и подняли головы к старой башне. Сторож сказал, что стрелки опять движутся.""",
    "thai": """หลังจากเงียบมาสิบเก้าปี นาฬิกาท่าเรือก็ตีบอกเวลาเที่ยงอีกครั้ง ผู้คนในตลาดหยุดเดินและเงยหน้ามองหอคอยเก่า
        คนเฝ้าบอกว่าเข็มเดินเหมือนตอนที่เขายังเป็นเด็ก""",
    "turkish": """On dokuz yıl süren sessizlikten sonra liman saati öğlen yeniden çaldı. Pazardaki insanlar durdu
        ve başlarını eski kuleye kaldırdı. Bekçi, ibrelerin çocukluğundaki gibi döndüğünü söyledi.""",
    "ukrainian": """Після дев'ятнадцяти років мовчання портовий годинник знову пробив полудень. Люди на ринку
        зупинилися й підвели голови до старої вежі. Сторож сказав, що стрілки рухаються, як у дитинстві.""",
}  # fmt: skip

ENCODED = [
    ("arabic", "windows-1256"),
    ("arabic", "iso-8859-6"),
    ("bulgarian", "windows-1251"),
    ("chinese", "gb2312"),
    ("chinese", "gbk"),
    ("chinese", "gb18030"),
    ("chinese, traditional", "big5"),
    ("czech", "windows-1250"),
    ("czech", "iso-8859-2"),
    ("english", "windows-1252"),
    ("french", "windows-1252"),
    ("german", "iso-8859-1"),
    ("greek", "windows-1253"),
    ("greek", "iso-8859-7"),
    ("hebrew", "windows-1255"),
    ("hebrew", "iso-8859-8"),
    ("hungarian", "iso-8859-2"),
    ("japanese", "shift_jis"),
    ("japanese", "euc-jp"),
    ("japanese", "iso-2022-jp"),
    ("korean", "euc-kr"),
    ("polish", "windows-1250"),
    ("polish", "iso-8859-2"),
    ("russian", "windows-1251"),
    ("russian", "koi8-r"),
    ("russian", "iso-8859-5"),
    ("russian", "ibm866"),
    ("thai", "windows-874"),
    ("thai", "tis-620"),
    ("turkish", "windows-1254"),
    ("turkish", "iso-8859-9"),
    ("ukrainian", "koi8-u"),
    ("ukrainian", "windows-1251"),
]
# The detector takes Hungarian for a western language where no country is named.
MISTAKEN = {"hungarian"}
PYTHON = {"windows-874": "cp874"}
GOLDEN = sorted(oracle.GOLDEN.glob("[!m]*.html"))  # markup.html has invalid bytes

# What stands around a text: far more ASCII than there is text.
SHELL = """<!DOCTYPE html>
<html><head>{declaration}<title>{title}</title><script>window.dataLayer = [{{"page": 1}}];</script>
<style>body {{font: 13px arial}}</style></head><body class="home page"><div id="top" class="bar">
<ul class="menu"><li><a href="/index.php?id=1">Home</a></li><li><a href="/contact">Contact</a></li></ul></div>
<div class="content"><h1>{title}</h1><p>{text}</p><p>{text}</p></div>
<div class="footer"><a href="/rss.xml">RSS</a> Copyright 2004 Example Media</div></body></html>"""


def page_of(language: str, declaration: str = "") -> str:
    """Return a page with a language's text."""
    text = " ".join(TEXTS[language].split())
    return SHELL.format(declaration=declaration, title=text.split(".")[0][:40], text=text)


def encoded(page: str, encoding: str) -> bytes:
    """Return a page in an encoding, by the name that the web has for it."""
    return page.encode(PYTHON.get(encoding, encoding), "xmlcharrefreplace")


def meta(encoding: str) -> str:
    return f'<meta charset="{encoding}">'
